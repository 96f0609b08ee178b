"""A task: what a corpus asks of a model. It has a kind, labels, splits and the metric that ranks models."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.core import json_file
from pipelines.core.errors import InputError

FILE = "task.json"


@dataclass(frozen=True)
class Task:
    """One task of one corpus. Rows, encoded ids and model folders hold it as task.json."""

    name: str
    kind: str  # a key of schema.ROWS
    labels: tuple[str, ...] = ()  # in the order of their ids
    metric: str = ""  # the metric that ranks models; a name in evaluation/metrics
    splits: tuple[str, ...] = ("train", "test")
    language: str = ""
    units: str = "words"  # what is tagged: "words" between spaces, or single "characters"
    unanswerable: bool = False  # whether some questions have no answer in their context
    submission: str = ""  # the file that a leaderboard takes for a split without labels
    submits_ids: bool = False  # the submission has labels by number, not by name

    @property
    def train(self) -> str:
        """The name of the training split. Raises InputError if the task has none."""
        if "train" not in self.splits:
            raise InputError(
                f"task {self.name}: none of its splits is named train ({', '.join(self.splits)}); training needs it"
            )
        return "train"

    def with_(self, **changes: Any) -> "Task":
        return replace(self, **changes)

    def save(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Task":
        path = folder / FILE
        if not path.is_file():
            raise InputError(f"{path}: missing; a folder of rows, encoded ids or a fine-tuned model holds one")
        fields = json_file.mapping(path)
        return cls(**fields | {name: tuple(fields[name]) for name in ("labels", "splits")})
