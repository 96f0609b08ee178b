"""Check, before any work, that a method supports the teacher's family and the kind of rows."""

from types import ModuleType

from transformers import PreTrainedModel

from pipelines.checkpoints import formats
from pipelines.core.errors import UsageError
from pipelines.core.task import Task
from pipelines.models import backbones


def check(key: str, method: ModuleType, teacher: PreTrainedModel, task: Task, name: str) -> None:
    """Raise UsageError unless `method` can compress the teacher, which is the model of the run `name`.

    A method lists what it supports in `FAMILIES` and `KINDS`. A method without `FAMILIES` takes any teacher.
    """
    plugin = method.__name__.rpartition(".")[2]
    where = f"params.yaml: compress.{key}.method: {plugin}"
    families: tuple[str, ...] = getattr(method, "FAMILIES", ())
    kinds: tuple[str, ...] = getattr(method, "KINDS", ())
    family = backbones.encoder(teacher).config.model_type
    if kinds and task.kind not in kinds:
        raise UsageError(f"{where} does not take rows of kind {task.kind}; it takes {', '.join(kinds)}")
    if not families:
        return
    if family not in families:
        raise UsageError(f"{where} does not take the {family} family of {name}; it takes {', '.join(families)}")
    form = formats.of_model(teacher)
    if form not in formats.FLOATS:
        raise UsageError(
            f"{where} cannot change the weights of {name}, which are {form.words}; compress the model that it was "
            f"made from, and make the result {form.words} at the end"
        )
