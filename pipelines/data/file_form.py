"""The form of a file of one's own, and the split that it is: told by its name and its first lines."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pipelines.core.errors import InputError
from pipelines.data.formats import conll, delimiters, encodings, folders
from pipelines.data.formats.records import FORMATS, Opener, lines, plain

TABLES = FORMATS  # of records
CSV_WITH_TABS = {"format": "csv", "delimiter": "\t"}
BEGINNING_BYTES = 1 << 20  # at most of a line by which the form of JSON is told
COMPRESSED = ("gz", "zip", "bz2", "xz", "zst", "7z")
BINARY = ("parquet", "xlsx")  # formats without an encoding
SPLITS = {  # what names of files say, as words: "latest" is no test
    "train": r"(?<![a-z])train(ing)?(set|data)?(?![a-z])|学習|訓練",
    "test": r"(?<![a-z])test(ing)?(set|data)?(?![a-z])|評価|テスト",
    "dev": r"(?<![a-z])(dev(elopment)?|val(id(ation)?)?)(set|data)?(?![a-z])|検証|開発",
}
CONLL = ("conll", "bio", "iob", "iob2")  # suffixes of files whose tags may be others than TAGS
TAGS = re.compile(r"([^\t]+\t|\S+ )(.*[ \t])?(O|[BIELSU]-\S+)$")

EXCEL = re.compile(r"sep=.$")  # a first line that names the delimiter


def split_of(file: Path) -> str:
    """The split that a file's name says: train, test or dev; "" if it says none."""
    return next((split for split, pattern in SPLITS.items() if re.search(pattern, file.stem.lower())), "")


def split_said(file: Path) -> str:
    """The split that a file's name says. Raises InputError if it says none."""
    if split := split_of(file):
        return split
    raise InputError(f"{file}: its name does not say which split it is; rename it to train, dev or test")


def splits(files: Sequence[Path]) -> dict[str, str]:
    """The name of the file of each split. A dev file without a test is the test, on which nothing may be chosen.

    Raises InputError if two files are of one split, or none is to be trained on.
    """
    names = {split_said(file): file.name for file in files}
    if len(names) < len(files):
        raise InputError(f"{files[0].parent}: two files of one split; names say train, dev or test")
    if "train" not in names:
        raise InputError(f"{files[0].parent}: no file to train on; its name says train")
    if "test" not in names:
        names["test"] = names.pop("dev")
    return names


def of_all(files: Sequence[Path]) -> dict[str, Any]:
    """The form of the files. Raises InputError if two differ in it: an entry has one; ASCII is any encoding."""
    first, *others = files
    forms = {file: form(file) for file in files}
    if any(CSV_WITH_TABS.items() <= here.items() for here in forms.values()):
        for file, here in forms.items():
            if here["format"] == "tsv" and not delimiters.has_quotes(file, _opener(here)):  # it is both
                here |= CSV_WITH_TABS
    shared = forms[first]
    for file in others:
        here = forms[file]
        if "encoding" not in shared and "encoding" in here and _is_ascii(first):
            shared["encoding"] = here["encoding"]
        for key, usual in (("format", ""), ("delimiter", ","), ("encoding", encodings.UTF_8)):
            one, other = shared.get(key, usual), here.get(key, usual)
            is_ascii = key == "encoding" and one != "utf-16" and other == usual and _is_ascii(file)
            if one != other and not is_ascii:
                raise InputError(f"{first} and {file}: their {key} is {one!r} and {other!r}; save both alike")
    return shared


def _is_ascii(file: Path) -> bool:
    return file.is_file() and file.read_bytes().isascii()


def form(file: Path) -> dict[str, Any]:
    """The keys format, kind, encoding and delimiter of a file or folder. Raises InputError if it has no known form."""
    suffix = file.suffix.lstrip(".").lower()
    if file.is_dir():
        if not (texts := folders.files(file, labelled=True)):
            raise InputError(
                f"{file}: a folder of a corpus has a folder for each label, with its texts as *.txt, or holds tables"
            )
        return {"format": "folder", "kind": "single", **_encoding(encodings.shared(texts))}
    if suffix in ("xls", "xlsb", "ods"):
        raise InputError(f"{file}: a workbook of another form than xlsx; save it as xlsx, and name that file")
    if suffix in COMPRESSED:
        raise InputError(f"{file}: a compressed file; unpack it, and name the file that is in it")
    if suffix in BINARY:
        return {"format": suffix}
    if not (name := encodings.reads_as(file)):
        raise InputError(f"{file}: its bytes are no text in a known encoding; save it as UTF-8")
    encoding = _encoding(name)
    opener = _opener(encoding)
    if suffix in ("json", "jsonl", "ndjson"):
        return {**_json_form(file, opener, suffix), **encoding}
    head = [line for _, line in zip(range(200), lines(file, opener), strict=False)]
    tagged = [line.rstrip(" \t") for _, line in head if line.strip() and not line.startswith("-DOCSTART-")]
    tagged = [line for line in tagged if not conll.is_comment(line)]
    if tagged and (suffix in CONLL or all(TAGS.match(line) for line in tagged)):
        words = [conll.fields_of(line)[0] for line in tagged]
        units = {"units": "characters"} if all(len(word) == 1 for word in words) else {}
        return {"format": "conll", "kind": "tagging", **encoding, **units}
    if suffix == "tsv":
        is_csv = delimiters.has_quotes(file, opener) and delimiters.is_csv(file, opener)
        return {**(CSV_WITH_TABS if is_csv else {"format": suffix}), **encoding}
    if suffix not in ("csv", "txt"):
        raise InputError(f"{file}: not CSV, TSV, JSONL, JSON, Parquet, xlsx, CoNLL's columns or a folder per label")
    if head and EXCEL.match(head[0][1]):
        raise InputError(f"{file}: its first line, {head[0][1]!r}, is read by Excel alone; remove this line")
    delimiter = delimiters.likeliest(file, opener)
    return {"format": "csv", **encoding, **({"delimiter": delimiter} if delimiter != "," else {})}


def _json_form(file: Path, opener: Opener, suffix: str) -> dict[str, Any]:
    """The format of JSON: a list of objects, an object on each line, or SQuAD's; the suffix may name another."""
    with opener(file) as source:
        beginning = iter(lambda: source.readline(BEGINNING_BYTES), b"")
        texts = (line.decode("utf-8-sig", errors="replace").strip() for line in beginning)
        first, second = (*islice(filter(None, texts), 2), "", "")[:2]
    if first.startswith("["):
        return {"format": "json"}
    if suffix in ("jsonl", "ndjson") or (first.endswith("}") and second.startswith("{")):
        return {"format": "jsonl"}
    return {"format": "squad", "kind": "span"}


def _opener(keys: Mapping[str, str]) -> Opener:
    return encodings.opener(keys.get("encoding", encodings.UTF_8)) or plain


def _encoding(name: str) -> dict[str, str]:
    return {"encoding": name} if name != encodings.UTF_8 else {}
