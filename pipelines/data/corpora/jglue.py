"""jglue: four tasks of JGLUE 1.3 (Kurihara et al. 2022): JSTS, JNLI, JSQuAD, JCommonsenseQA, one edition each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats.records import jsonl
from pipelines.data.formats.squad_json import questions
from pipelines.data.sources import Source

_HOST = "https://raw.githubusercontent.com/yahoojapan/JGLUE/6f071c09/datasets"
_FILES = {"train": "train", "dev": "valid", "test": "test"}
_NLI = ("entailment", "contradiction", "neutral")
TASKS = {
    "jsts": Task("jsts", "regression", (), "pearson", ("train", "dev", "test"), "ja"),
    "jcommonsenseqa": Task(
        "jcommonsenseqa", "choice", ("0", "1", "2", "3", "4"), "accuracy", ("train", "dev", "test"), "ja"
    ),
    "jnli": Task("jnli", "pair", _NLI, "accuracy", ("train", "dev", "test"), "ja"),
    "jsquad": Task("jsquad", "span", (), "f1", ("train", "dev", "test"), "ja", normalization="jglue"),
}
DIGESTS = {  # known sha256 digests: jnli's come from projects that pin this commit; jsquad's are not known
    "jsts": {
        "train": "db6bd653270ac9786759920413a48973164d322998f34dd4ae32202af5e66969",
        "valid": "7c0bdcb381179f01096c635d058853d96da1e1248d23fe3f5c2beed5dc2d9b1a",
        "test": "b31ff21e07f47d580b7eb90802da45bf6a60e34fec886e28df7a21faf4469089",
    },
    "jcommonsenseqa": {
        "train": "9b55fae5ecb3aedd6f8ce5bc09196c3b629864668ec6c18eee4d65c0aa48229e",
        "valid": "0d8d76f3bfa0d174866939882faccdd01fbc2bcd5a76c43748ba0c40a7b3b8d4",
        "test": "ba91ef3907c91436a5e44fa9fccbbfa3df507577e2c681f4d7e39bd987f0186d",
    },
    "jnli": {
        "train": "c506354d1310807f7300cfa8ad49482c6359a84fe85eea8d5e667d90d338d1c4",
        "valid": "ca0353efc7c2eebfb6de4e13f16295053c8b1ee65e7b0849190c90426fbc495f",
        "test": "f40849584d4291ec172dcd869646800cc8c82457cde2260a0f45934eda307792",
    },
}
ROWS = {  # from README.md of version 1.3
    "jsts": {"train": 12451, "dev": 1457, "test": 1589},
    "jcommonsenseqa": {"train": 8939, "dev": 1119, "test": 1118},
    "jnli": {"train": 20073, "dev": 2434, "test": 2508},
    "jsquad": {"train": 62697, "dev": 4442, "test": 4420},
}


def _source(task: Task, file: str) -> Source:
    name, folder = f"{file}-v1.3.json", f"{task.name}-v1.3"
    digest = DIGESTS.get(task.name, {}).get(file)
    return Source(
        name, url=f"{_HOST}/{folder}/{name}", mirror=f"jglue/{folder}/{name}", sha256=digest, licence="CC BY-SA 4.0"
    )


SOURCES = {name: [_source(task, _FILES[split]) for split in task.splits] for name, task in TASKS.items()}


Params, task = declared.Nothing, declared.chooser(TASKS)


def parse(raw: Path, task: Task, split: str, params: declared.Nothing) -> Iterator[dict[str, Any]]:
    """Rows of one split."""
    path = raw / f"{_FILES[split]}-v1.3.json"
    if task.kind == "span":
        yield from questions(path)
        return
    for at, record in jsonl(path):

        def get(name: str, at: str = at, record: dict[str, Any] = record) -> Any:
            return declared.column(path, at, record, name)

        label = record.get("label")
        if task.kind == "choice":
            texts: dict[str, Any] = {"text": get("question"), "choices": [get(f"choice{i}") for i in range(5)]}
            label = None if label is None else declared.name_of(path, at, str(label), task.labels)
        else:
            texts = {"text": get("sentence1"), "text_pair": get("sentence2")}
            if label is not None:
                regression = task.kind == "regression"
                label = (
                    declared.number(path, at, label)
                    if regression
                    else declared.name_of(path, at, label, task.labels, by_number=False)
                )
        yield {"id": str(get("q_id" if task.kind == "choice" else "sentence_pair_id")), **texts, "label": label}


def verify(raw: Path, edition: str) -> None:
    """Check that every split has as many rows as declared, if a number is declared."""
    declared.check_rows(raw, TASKS[edition], ROWS.get(edition, {}), parse, Params())
