"""pretrain: the start of an encoder, the text that it reads, and its objective."""

from typing import Any, ClassVar

from pydantic import field_validator

from pipelines.core.section import Name
from pipelines.entries.parts.fit import Fit


class Pretrain(Fit):
    refers: ClassVar = {"data": ("encode",)}
    plugins: ClassVar = ("objective", "pipelines.objectives")

    data: Name
    start: str  # a model folder to continue from, or a config (a JSON file), for random weights
    objective: str
    config: dict[str, Any] = {}  # changes to the config, by its own names: num_hidden_layers, hidden_size, ...

    def shared(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "accumulate": self.accumulate}

    @field_validator("patience")
    @classmethod
    def _none(cls, patience: int) -> int:
        if patience:
            raise ValueError("pretraining measures a loss, not a score, and always trains all epochs; remove it")
        return patience
