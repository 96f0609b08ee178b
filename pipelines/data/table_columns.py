"""The columns of a table that hold the text, the label and the id, told by their names and their cells."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.core.errors import InputError, choices
from pipelines.data import targets
from pipelines.data.own_tables import MANY_VALUES

Columns = Mapping[str, Sequence[Any]]  # name -> the cells
NAMES = {  # what a column of a row is often called
    "text": "text body review content sentence message comment headline title 本文 内容 文 テキスト 文章 タイトル 件名",
    "label": "label labels category class kind type stars rating tag intent topic accept "
    "ラベル カテゴリ 分類 種別 区分 評価",
    "first": "sentence1 text1 premise text question1 文1",
    "text_pair": "sentence2 text2 hypothesis text_pair question2 文2",
}
ENTITIES = ("entities", "spans", "label", "labels")  # of a text, as annotation tools name them
WORDS, TAGS = ("tokens", "words"), ("ner_tags", "tags", "labels")  # of a sentence, as data sets of Hugging Face do
LABELS_SHARE = 0.5  # of different values; a column with more holds no labels


def kind_and_columns(table: Columns, text: str = "", label: str = "") -> tuple[str, dict[str, str]]:
    """The kind of the rows of a table, and our names of its columns -> their names in the file.

    `text` and `label` name columns that a person chose. Raises InputError if no column can be the text or the label.
    """
    for name in filter(None, (text, label)):
        if name not in table:
            raise InputError(choices("column", name, table))
    columns: dict[str, str] = {}
    if identifier := id_column(table):
        columns["id"] = identifier
    if {"question", "context", "answers"} <= {*table}:
        return "span", columns
    if {"text", "choices"} <= {*table}:
        return "choice", columns
    if entities := _entities(table, label):
        words = "" if _holds(table, entities, (list, dict)) else _words(table)
        named = {"text": text or words or _text(table, {entities, *columns.values()}), "entities": entities}
        return "tagging", columns | {ours: theirs for ours, theirs in named.items() if ours != theirs}
    pair = _named(table, "text_pair") if not text else ""
    columns["text"] = text or (_named(table, "first") if pair else "") or _text(table, {label, *columns.values()})
    if pair:
        columns["text_pair"] = pair
    columns["label"] = label or _label(table, {*columns.values()})
    numbers = [_number(cell) for cell in table[columns["label"]] if cell not in ("", None)]
    several = len({*map(str, table[columns["label"]])}) > MANY_VALUES
    kind = "regression" if several and all(numbers) else "pair" if pair else "single"
    return kind, {name: column for name, column in columns.items() if name != column or name == "id"}


def _named(table: Columns, what: str) -> str:
    plain = {name.strip().lower(): name for name in reversed([*table])}
    return next((plain[name] for name in NAMES[what].split() if name in plain), "")


def _entities(table: Columns, label: str) -> str:
    """The column of the entities, or of the tags of words; "" if there is none. `label` is one that a person chose."""
    names = [name for name in ENTITIES if _holds(table, name, (list, dict))]
    names += ["entities"] if {"text", "entities"} <= {*table} else []
    names += [name for name in TAGS if _words(table) and _holds(table, name, (str, int))]
    return next((name for name in names if label in ("", name)), "")


def _words(table: Columns) -> str:
    """The column with a list of words in each cell; "" if there is none."""
    return next((name for name in WORDS if _holds(table, name, str)), "")


def _holds(table: Columns, name: str, kind: type | tuple[type, ...]) -> bool:
    """Return whether the first cell of the column that is not empty is a list of such values."""
    first = next((cell for cell in table.get(name, ()) if cell not in ([], None, "")), None)
    return isinstance(first, list) and all(isinstance(item, kind) for item in first)


def id_column(table: Columns) -> str:
    """The column that numbers the rows: its name says so, and no value occurs twice or is missing."""
    for name, cells in table.items():
        is_named = name.lower() in ("id", "no", "number", "番号") or name.lower().endswith(("_id", "id番号"))
        is_unique = len({*map(str, cells)}) == len(cells)
        if is_named and is_unique and all(isinstance(targets.plain(cell), str | int) and cell != "" for cell in cells):
            return name
    return ""


def _text(table: Columns, taken: set[str]) -> str:
    """The column with such a name, or else the one with the longest cells."""
    if (name := _named(table, "text")) and name not in taken:
        return name
    texts = {
        name: sum(map(len, cells))
        for name, cells in table.items()
        if name not in taken and all(isinstance(cell, str) for cell in cells)
    }
    if not texts:
        raise InputError("no column holds texts; name it by --text")
    return max(texts, key=lambda name: texts[name])


def _label(table: Columns, taken: set[str]) -> str:
    """The column with such a name, or else the one with the fewest different values, which are two or more."""
    if (name := _named(table, "label")) and name not in taken:
        return name
    counts = {name: len({*map(str, cells)}) for name, cells in table.items() if name not in taken}
    few = {name: count for name, count in counts.items() if 2 <= count <= LABELS_SHARE * len(table[name])}
    if not few:
        raise InputError("no column holds labels: each has one value, or as many as rows; name it by --label")
    return min(few, key=lambda name: few[name])


def _number(cell: Any) -> bool:
    try:
        targets.number(cell)
    except ValueError:
        return False
    return True
