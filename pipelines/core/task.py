"""A task of a corpus: the kind of its rows, its labels and splits, and the metric that ranks models."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from pipelines.core import json_file
from pipelines.core.errors import InputError, choices, sentence
from pipelines.core.schema import METRICS, NORMALIZATIONS, ROWS
from pipelines.core.section import Name

FILE = "task.json"
# a file name without folders: bertline writes this file, and a task.json may come from an untrusted source
_FileName = Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*)?$", max_length=100)]


@dataclass(frozen=True)
class Task:
    """One task of one corpus. Folders of rows, of encoded ids and of models hold it as task.json."""

    name: str
    kind: str  # a key of schema.ROWS
    labels: tuple[str, ...] = ()  # in the order of their ids
    metric: str = ""  # the metric that ranks models; a name in evaluation/metrics
    splits: tuple[Name, ...] = ("train", "test")
    language: str = ""
    units: Literal["words", "characters"] = "words"  # what is tagged: "words" between spaces, or single "characters"
    unanswerable: bool = False  # whether some questions have no answer in their context
    submission: _FileName = ""  # the file that a leaderboard takes for a split without labels
    submits_ids: bool = False  # the submission has labels by number, not by name
    normalization: str = ""  # kind span: how answers are normalized; a name in schema.NORMALIZATIONS

    @property
    def compared_by(self) -> str:
        """The normalization of answers: the task's own or the default of its language; "" unless the kind is span."""
        if self.kind != "span":
            return ""
        return self.normalization or ("nfkc" if self.language == "ja" else "squad")

    @property
    def train(self) -> str:
        """The name of the training split. Raises InputError if the task has none."""
        if "train" not in self.splits:
            raise InputError(f"task {self.name}: no split is named train ({', '.join(self.splits)}); training needs it")
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
        for key in fields.keys() - cls.__dataclass_fields__.keys():
            raise InputError(f"{path}: {choices('key', key, cls.__dataclass_fields__)}")
        try:
            task = _TASK.validate_json(json.dumps(fields), strict=True)
        except ValidationError as invalid:
            raise InputError(f"{path}: {sentence(invalid.errors()[0])}") from None
        if complaint := task.complaint():
            raise InputError(f"{path}: {complaint}")
        return task

    def complaint(self) -> str:
        """A sentence about the first inconsistency; "" if the task is valid."""
        least = {"single": 2, "pair": 2, "choice": 2, "tagging": 1}.get(self.kind, 0)
        metrics = METRICS.get(self.kind, ("",))
        for name, values in (("labels", self.labels), ("splits", self.splits)):
            if len(set(values)) < len(values) or "" in values:
                return f"{name}: one of them is empty or occurs twice: {', '.join(values)}"
        if self.kind not in ROWS:
            return f"kind: {choices('kind of rows', self.kind, ROWS)}"
        if len(self.labels) < least or (self.labels and not least):
            return (
                f"labels: there are {len(self.labels)}; kind {self.kind} has {f'{least} or more' if least else 'none'}"
            )
        if self.metric not in metrics:
            return f"metric: {choices(f'metric of kind {self.kind}', self.metric, metrics)}"
        if self.normalization and self.kind != "span":
            return f"normalization: kind {self.kind} has none"
        if self.normalization and self.normalization not in NORMALIZATIONS:
            return f"normalization: {choices('normalization', self.normalization, NORMALIZATIONS)}"
        return "" if self.splits else "splits: there are none"


_TASK = TypeAdapter(Task)
