"""A dirty file of support tickets, as an office exports it: made from words and a seed, with every common fault."""

import random
from pathlib import Path
from typing import NamedTuple

LABELS = ("billing", "bug", "how-to")
WORDS = {
    "en": {
        "billing": ["invoice", "charged twice", "refund", "payment", "receipt", "price"],
        "bug": ["crashes", "error", "freezes", "does not start", "blank screen", "broken"],
        "how-to": ["how do I", "where is", "set up", "change the setting", "guide", "explain"],
        "": ["please", "today", "again", "since Monday", "for my team", "on the phone", "thanks", "order", "account"],
    },
    "ja": {
        "billing": ["請求書", "二重に課金", "返金", "支払い", "領収書", "料金"],
        "bug": ["落ちます", "エラー", "固まる", "起動しない", "画面が真っ白", "壊れた"],
        "how-to": ["方法を教えて", "どこですか", "設定", "変更したい", "手順", "使い方"],
        "": ["お願いします", "今日", "また", "月曜から", "部署で", "電話で", "すみません", "注文", "アカウント"],
    },
}


class Dirt(NamedTuple):
    """What is wrong with the file."""

    spaces: int = 20  # labels with outer spaces
    cases: int = 10  # labels in another case
    empty: int = 4  # rows without anything
    again: int = 12  # rows that occur twice
    contradictions: int = 3  # texts that occur under a second label
    broken: int = 2  # rows with a field too many
    odd: int = 1  # a misspelt label


DIRT = Dirt()


def texts(language: str, rows: int, seed: int = 1) -> list[tuple[str, str]]:
    """Texts with their labels, which one or two of their words tell."""
    drawn, made = random.Random(seed), []
    joint, words = (" ", WORDS["en"]) if language == "en" else ("", WORDS["ja"])
    for i in range(rows):
        label = LABELS[i % 3]
        parts = drawn.sample(words[label], 2) + drawn.sample(words[""], 5)
        drawn.shuffle(parts)
        made.append((f"{joint.join(parts)}{joint}{drawn.randrange(1000)}", label))
    return made


def write(path: Path, language: str, encoding: str, delimiter: str, dirt: Dirt = DIRT, rows: int = 600) -> None:
    """Write `rows` rows with the columns 番号, body and category, and the dirt among them."""
    drawn = random.Random(2)
    clean = rows - dirt.empty - dirt.again - dirt.contradictions - dirt.broken - dirt.odd
    lines = [[text, label] for text, label in texts(language, clean)]
    for i in range(dirt.spaces):
        lines[i][1] = f"{lines[i][1]} "
    for i in range(100, 100 + dirt.cases):
        lines[i][1] = lines[i][1].upper()
    lines += [list(lines[200 + i]) for i in range(dirt.again)]
    lines += [[lines[300 + i][0], LABELS[(i + 1) % 3]] for i in range(dirt.contradictions)]
    lines += [["", ""]] * dirt.empty + [[f"{lines[0][0]} !", "bugg"]] * dirt.odd
    drawn.shuffle(lines)
    records = [delimiter.join(["番号", "body", "category"])]
    records += [delimiter.join([str(i), f'"{text}"' if text else "", label]) for i, (text, label) in enumerate(lines)]
    for i in range(dirt.broken):
        records.insert(50 + i, delimiter.join(["x", "one", "two", "three", "four"]))
    path.write_bytes(("\r\n".join(records) + "\r\n").encode(encoding))
