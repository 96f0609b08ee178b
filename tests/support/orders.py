"""Letters about orders, made from templates and a seed: entities in CoNLL's columns, questions in SQuAD's JSON.

Names are made of syllables, so that the names of a test are not those of the training; what tells them is the context.
"""

import json
import random
import re
from pathlib import Path
from typing import Any, NamedTuple

KINDS = {"P": "person", "C": "company", "L": "place"}
SLOT = re.compile(r"\{(\w)\}")


class Words(NamedTuple):
    """The parts of the letters of a language; a template has slots: P, C, L, and X for a name that is no entity."""

    syllables: str
    companies: tuple[str, ...]  # the ends of their names
    places: tuple[str, ...]
    letters: tuple[str, ...]
    facts: tuple[tuple[str, str, str], ...]  # a sentence with a slot A for the answer, the question, the answer's kind


ENGLISH = Words(
    "ka lo mi ren tor vel dan su bri gol pem ard is wen hol",
    (" Works", " Trading", " Ltd"),
    ("", "ton", "ford"),
    (
        "{P} of {C} ordered {N} chairs for the office in {L} .",
        "Please send the invoice to {C} in {L} , not to {P} .",
        "{C} has moved from {L} to {L} .",
        "On Monday {P} called about the {X} model .",
        "The {X} series is sold out , says {P} .",
        "Our driver brings {N} boxes of {X} to {L} .",
        "{P} no longer works for {C} .",
        "The catalogue shows {X} on page {N} .",
    ),
    (
        ("{A} ordered the goods.", "Who ordered the goods?", "P"),
        ("They are sent to {A}.", "Where are the goods sent?", "L"),
        ("The invoice goes to {A}.", "Who gets the invoice?", "C"),
        ("{A} pieces were ordered.", "How many pieces were ordered?", "N"),
        ("The driver is {A}.", "Who is the driver?", "P"),
        ("The store is in {A}.", "Where is the store?", "L"),
    ),
)
JAPANESE = Words(
    "カ ロ ミ レン トル ベル ダン ス ブリ ゴル ペム アド イス ウェン ホル",
    ("商事", "工業", "株式会社"),
    ("市", "町", "県"),
    (
        "{C}の{P}さんから{L}の事務所に椅子{N}脚の注文がありました。",
        "請求書は{P}さんではなく{L}の{C}に送ってください。",
        "{C}は{L}から{L}に移転しました。",
        "月曜に{P}さんから{X}型について電話がありました。",
        "{X}シリーズは品切れと{P}さんが言っています。",
        "運転手が{X}を{N}箱{L}に運びます。",
        "{P}さんは{C}を退職しました。",
        "カタログの{N}ページに{X}があります。",
    ),
    (
        ("商品を注文したのは{A}さんです。", "商品を注文したのは誰ですか。", "P"),
        ("商品は{A}に送ります。", "商品はどこに送りますか。", "L"),
        ("請求書は{A}に送ります。", "請求書は誰に送りますか。", "C"),
        ("注文は{A}個です。", "注文は何個ですか。", "N"),
        ("運転手は{A}さんです。", "運転手は誰ですか。", "P"),
        ("倉庫は{A}にあります。", "倉庫はどこですか。", "L"),
    ),
)
OF = {"en": ENGLISH, "ja": JAPANESE}


def name(rng: random.Random, kind: str, words: Words) -> str:
    """A name, or a number for the slot N."""
    if kind == "N":
        return str(rng.randrange(2, 900))
    made = "".join(rng.sample(words.syllables.split(), 2)).capitalize()
    ends = {"C": words.companies, "L": words.places}
    return made + rng.choice(ends.get(kind, ("",)))


def filled(rng: random.Random, template: str, words: Words) -> list[tuple[str, str]]:
    """The parts of a text, each with the kind of its slot, or "" between slots."""
    parts = SLOT.split(template)  # text and slot in turn
    return [(name(rng, part, words), part) if i % 2 else (part, "") for i, part in enumerate(parts)]


def write_entities(path: Path, language: str, rows: int, seed: int = 1) -> None:
    """Write sentences of one to two letters; a line is a word in English, and a character in Japanese."""
    rng, words, lines = random.Random(seed), OF[language], []
    for _ in range(rows):
        for template in rng.sample(words.letters, rng.choice((1, 2))):
            for part, slot in filled(rng, template, words):
                begin = "B" if slot in KINDS else ""
                for unit in part.split() if language == "en" else part:
                    lines.append(f"{unit}\t{begin}-{KINDS[slot]}" if begin else f"{unit}\tO")
                    begin = "I" if begin else ""
        lines.append("")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def write_questions(path: Path, language: str, rows: int, seed: int = 1) -> None:
    """Write letters of four facts in any order, with a question on each of two of them."""
    rng, words, paragraphs = random.Random(seed), OF[language], []
    joint = " " if language == "en" else ""
    for number in range(rows // 2):
        facts = rng.sample(words.facts, 4)
        answers = [name(rng, kind, words) for _, _, kind in facts]
        context, starts = "", []
        for (sentence, _, _), answer in zip(facts, answers, strict=True):
            context += joint if context else ""
            starts.append(len(context) + sentence.index("{A}"))
            context += sentence.replace("{A}", answer)
        questions: list[dict[str, Any]] = [
            {
                "id": f"{number}-{i}",
                "question": facts[i][1],
                "answers": [{"text": answers[i], "answer_start": starts[i]}],
            }
            for i in rng.sample(range(4), 2)
        ]
        paragraphs.append({"context": context, "qas": questions})
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "orders", "paragraphs": paragraphs}]}), "utf-8")
