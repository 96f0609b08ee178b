"""The files of params/, reduced to few rows and few steps, for the corpora of the mirror."""

from pathlib import Path
from typing import Any

import yaml

from tests.support.places import MIRROR, ROOT

# file -> entry of prepare -> the share of its rows to take
FILES: dict[str, dict[str, float]] = {
    "glue": {"cola": 0.03, "sst2": 0.003, "stsb": 0.03, "rte": 0.06, "wnli": 0.3},  # the others are not in the mirror
    "squad": {"squad1": 0.02, "squad2": 0.02},
    "jglue": {"jsts": 0.02, "jcommonsenseqa": 0.02},
    "jaquad": {"jaquad": 0.005},
    "ner": {"ner": 0.05},
    "features": {"ner": 0.05},
    "choice": {"codah": 0.1},
    "masking": {"text-ja": 0.02, "jsts": 0.02},
    "sizes": {"text-ja": 0.02, "jsts": 0.02},
    "objectives": {"text-ja": 0.02, "jsts": 0.02, "ner": 0.05},
}

# file -> runs of finetune, chosen to cover each kind of rows and pretraining, and the share of the few rows to take
KINDS: dict[str, tuple[tuple[str, ...], float]] = {
    "glue": (("cola", "stsb", "rte"), 1.0),
    "squad": (("squad1", "squad2"), 0.2),
    "ner": (("ner",), 1.0),
    "choice": (("codah",), 1.0),
    "masking": (("jsts-mask80-same10-random10",), 1.0),
}

# the mirror has a part of SQuAD, in files with other names
_SQUAD = {
    "corpus": "custom",
    "source": str(MIRROR.resolve() / "squad"),
    "kind": "span",
    "format": "squad",
    "language": "en",
}
_TRAIN = "train-v1.1.subset800.json"
OTHERWISE: dict[str, dict[str, Any]] = {
    "squad1": {**_SQUAD, "files": {"train": _TRAIN, "dev": "dev-v1.1.reconstructed.json"}},
    "squad2": {**_SQUAD, "files": {"train": _TRAIN, "dev": "dev-v2.0.reconstructed.json"}, "unanswerable": True},
}


def few(file: str) -> dict[str, Any]:
    """The file's entries for the tasks in FILES, with few rows and one epoch."""
    values, shares = yaml.safe_load((ROOT / "params" / f"{file}.yaml").read_text(encoding="utf-8")), FILES[file]
    known = values["prepare"] | OTHERWISE
    values["prepare"] = {task: known[task] | {"sample": share} for task, share in shares.items()}
    raw = {Path(entry["source"]).name for entry in values["prepare"].values()}
    values["ingest"] = {name: entry for name, entry in values["ingest"].items() if name in raw}
    values["encode"] = {name: entry for name, entry in values["encode"].items() if entry["task"] in shares}
    for section, less in (
        ("pretrain", {"epochs": 0.02, "evaluations": 1}),
        ("finetune", {"epochs": 1, "max_train_rows": 48}),
    ):
        entries = {name: entry for name, entry in values[section].items() if entry["data"] in values["encode"]}
        values[section] = {name: entry | less for name, entry in entries.items()}
    for section in ("baseline", "evaluate"):
        values[section] = {name: entry for name, entry in values[section].items() if entry["task"] in shares}
    return values


def one_of_each_kind(file: str) -> dict[str, Any]:
    """The entries of few(file) that the runs in KINDS require."""
    values, (runs, part) = few(file), KINDS[file]
    values["finetune"] = {name: values["finetune"][name] for name in runs}
    encoders = {Path(entry["encoder"]).name for entry in values["finetune"].values()}
    values["pretrain"] = {name: entry for name, entry in values["pretrain"].items() if name in encoders}
    trained = [*values["finetune"].values(), *values["pretrain"].values()]
    data = dict.fromkeys(entry["data"] for entry in trained)
    values["encode"] = {name: values["encode"][name] for name in data}
    tasks = dict.fromkeys(entry["task"] for entry in values["encode"].values())
    known = values["prepare"]
    values["prepare"] = {name: known[name] | {"sample": known[name]["sample"] * part} for name in tasks}
    raw = {Path(entry["source"]).name for entry in values["prepare"].values()}
    values["ingest"] = {name: entry for name, entry in values["ingest"].items() if name in raw}
    values["evaluate"] = {name: values["evaluate"][name] for name in runs}
    values["baseline"] = {name: entry for name, entry in values["baseline"].items() if entry["task"] in tasks}
    return values
