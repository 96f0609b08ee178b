"""compress: the model to make smaller, and the method."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from pipelines.core.section import Name, PluginSection


class Compress(PluginSection):
    refers: ClassVar = {"teacher": ("finetune", "compress"), "data": ("encode",)}
    plugins: ClassVar = ("method", "pipelines.compression.methods")

    teacher: Name
    data: Name
    method: str
    dev: str = ""  # a split to score the model on during training; the weights with the best score are kept
    seed: Annotated[int, Field(ge=0)] = 1

    def shared(self) -> dict[str, Any]:
        return {"seed": self.seed}
