"""glue: the nine tasks of GLUE (Wang et al. 2018) and its diagnostic set AX; each task is an edition."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats.archives import zip_member
from pipelines.data.formats.records import plain, tsv
from pipelines.data.sources import Source

_HOST = "https://dl.fbaipublicfiles.com"
_RTE, _MNLI = ("entailment", "not_entailment"), ("entailment", "neutral", "contradiction")
_TRAIN = {"train": "train", "dev": "dev", "test": "test"}


@dataclass(frozen=True)
class Table:
    """The files of a task: their columns, and the numbers of their rows."""

    task: Task
    size_bytes: int
    sha256: str
    rows: dict[str, int]
    columns: tuple[str, ...]  # text and text_pair
    label: str = "label"
    ids: bool = True  # whether the files and the submission write labels by number
    files: dict[str, str] = field(default_factory=lambda: _TRAIN)  # split -> file
    headless: tuple[str, ...] = ()  # column names of train and dev, if these files have no header
    archive: str = ""
    licence: str = "none stated"


def _task(name: str, kind: str, labels: tuple[str, ...], metric: str, **more: Any) -> Task:
    return Task(name, kind, labels, metric, ("train", "dev", "test"), "en", submission=f"{name}.tsv", **more)


TABLES = {
    "CoLA": Table(
        _task("CoLA", "single", ("unacceptable", "acceptable"), "matthews", submits_ids=True),
        376971,
        "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
        {"train": 8551, "dev": 1043, "test": 1063},
        ("sentence",),
        headless=("source", "label", "star", "sentence"),
    ),
    "SST-2": Table(
        _task("SST-2", "single", ("negative", "positive"), "accuracy", submits_ids=True),
        7439277,
        "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
        {"train": 67349, "dev": 872, "test": 1821},
        ("sentence",),
    ),
    "STS-B": Table(
        _task("STS-B", "regression", (), "pearson"),
        802872,
        "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
        {"train": 5749, "dev": 1500, "test": 1379},
        ("sentence1", "sentence2"),
        label="score",
        licence="scores CC BY-SA 4.0",
    ),
    "QQP": Table(
        _task("QQP", "pair", ("not_duplicate", "duplicate"), "f1", submits_ids=True),
        41696084,
        "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
        {"train": 363846, "dev": 40430, "test": 390965},
        ("question1", "question2"),
        label="is_duplicate",
        archive="QQP-clean.zip",
        licence="Quora, non-commercial",
    ),
    "MNLI": Table(
        _task("MNLI", "pair", _MNLI, "accuracy").with_(
            splits=("train", "dev", "dev_mismatched", "test", "test_mismatched"), submission="MNLI-m.tsv"
        ),
        312783507,
        "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
        {"train": 392702, "dev": 9815, "dev_mismatched": 9832, "test": 9796, "test_mismatched": 9847},
        ("sentence1", "sentence2"),
        label="gold_label",
        ids=False,
        files={
            "train": "train",
            "dev": "dev_matched",
            "dev_mismatched": "dev_mismatched",
            "test": "test_matched",
            "test_mismatched": "test_mismatched",
        },
        licence="OANC and others",
    ),
    "QNLI": Table(
        _task("QNLI", "pair", _RTE, "accuracy"),
        10627589,
        "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
        {"train": 104743, "dev": 5463, "test": 5463},
        ("question", "sentence"),
        ids=False,
        archive="QNLIv2.zip",
        licence="CC BY-SA 4.0",
    ),
    "RTE": Table(
        _task("RTE", "pair", _RTE, "accuracy"),
        697150,
        "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
        {"train": 2490, "dev": 277, "test": 3000},
        ("sentence1", "sentence2"),
        ids=False,
    ),
    "WNLI": Table(
        _task("WNLI", "pair", ("not_entailment", "entailment"), "accuracy", submits_ids=True),
        28999,
        "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
        {"train": 635, "dev": 71, "test": 146},
        ("sentence1", "sentence2"),
        licence="CC BY 4.0",
    ),
}
_MRPC = Task(
    "MRPC", "pair", ("not_equivalent", "equivalent"), "f1", ("train", "dev", "test"), "en", submission="MRPC.tsv",
    submits_ids=True,
)  # fmt: skip
_AX = Task("AX", "pair", _MNLI, "accuracy", ("test",), "en", submission="AX.tsv")
_MRPC_ROWS = {"train": 3668, "dev": 408, "test": 1725}
_SENTEVAL = f"{_HOST}/senteval/senteval_data"


def _zip(name: str, table: Table) -> Source:
    """The task's archive; a mirror may hold its files unpacked instead."""
    archive = table.archive or f"{name}.zip"
    files = [f"{file}.tsv" for file in table.files.values()]
    return Source(
        archive,
        url=f"{_HOST}/glue/data/{archive}",
        mirror=f"glue/{archive}",
        members={file: f"glue/{name}/{file}" for file in files},
        size_bytes=table.size_bytes,
        sha256=table.sha256,
        licence=table.licence,
    )


def _msr(name: str, url: str, size_bytes: int, sha256: str) -> Source:
    licence = "Microsoft Research, research use"
    return Source(name, url=url, mirror=f"glue/MRPC/{name}", size_bytes=size_bytes, sha256=sha256, licence=licence)


SOURCES = {name: [_zip(name, table)] for name, table in TABLES.items()} | {
    "MRPC": [
        _msr(
            "msr_paraphrase_train.txt",
            f"{_SENTEVAL}/msr_paraphrase_train.txt",
            1047044,
            "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
        ),
        _msr(
            "msr_paraphrase_test.txt",
            f"{_SENTEVAL}/msr_paraphrase_test.txt",
            441275,
            "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
        ),
        _msr(
            "mrpc_dev_ids.tsv",
            f"{_HOST}/glue/data/mrpc_dev_ids.tsv",
            6222,
            "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
        ),
    ],
    "AX": [
        Source(
            "AX.tsv",
            url=f"{_HOST}/glue/data/AX.tsv",
            mirror="glue/diagnostic.tsv",
            size_bytes=222257,
            sha256="0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd",
            licence="none stated",
        )
    ],
}
TASKS = {name: table.task for name, table in TABLES.items()} | {"MRPC": _MRPC, "AX": _AX}


Params, task = declared.Nothing, declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: declared.Nothing) -> Iterator[dict[str, Any]]:
    """Rows of one split; labels that GLUE does not publish are null."""
    if task.name == "MRPC":
        yield from _parse_mrpc(raw, split)
        return
    if task.name == "AX":
        for _, record in tsv(raw / "AX.tsv"):
            yield {"id": record["index"], "text": record["sentence1"], "text_pair": record["sentence2"], "label": None}
        return
    table = TABLES[task.name]
    path, opener = _file(raw, task.name, f"{table.files[split]}.tsv")
    headless = () if split.startswith("test") else table.headless
    for number, (at, record) in enumerate(tsv(path, opener, headless)):
        texts = [declared.column(path, at, record, name) for name in table.columns]
        label = None if split.startswith("test") else _label(table, path, at, record)
        row = dict(zip(("text", "text_pair"), texts, strict=False))
        yield {"id": record.get("index", str(number)), **row, "label": label}


def _parse_mrpc(raw: Path, split: str) -> Iterator[dict[str, Any]]:
    """Rows of MRPC: GLUE's list of ids divides MSR's training file into train and dev; MSR's test file has labels."""
    with (raw / "mrpc_dev_ids.tsv").open(encoding="utf-8") as file:
        held_out = {tuple(line.split()) for line in file}
    path = raw / f"msr_paraphrase_{'test' if split == 'test' else 'train'}.txt"
    for at, record in tsv(path):
        ids = (declared.column(path, at, record, "#1 ID"), declared.column(path, at, record, "#2 ID"))
        if split == "test" or (ids in held_out) == (split == "dev"):
            label = declared.name_of(path, at, declared.column(path, at, record, "Quality"), _MRPC.labels)
            texts = {"text": record["#1 String"], "text_pair": record["#2 String"]}
            yield {"id": "-".join(ids), **texts, "label": label}


def _label(table: Table, path: Path, at: str, record: dict[str, Any]) -> str | float:
    value = declared.column(path, at, record, table.label)
    if table.task.kind == "regression":
        return declared.number(path, at, value)
    return declared.name_of(path, at, value, table.task.labels, table.ids)


def _file(raw: Path, name: str, file: str) -> tuple[Path, Callable[[Path], Any]]:
    """The archive and a function that opens its member; the member itself if a mirror holds it unpacked."""
    archive = raw / SOURCES[name][0].name
    return (archive, zip_member(f"{name}/{file}")) if archive.is_file() else (raw / file, plain)


def verify(raw: Path, edition: str) -> None:
    """Check that every file that exists has as many rows as declared."""
    if edition in TABLES:
        table = TABLES[edition]
        there = {split for split, file in table.files.items() if _file(raw, edition, f"{file}.tsv")[0].is_file()}
        rows = {split: count for split, count in table.rows.items() if split in there}
    else:
        rows = _MRPC_ROWS if edition == "MRPC" else {"test": 1104}
    declared.check_rows(raw, TASKS[edition], rows, parse, Params())
