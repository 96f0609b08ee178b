"""Whether an entry of finetune goes with its task, and its keys with each other."""

from pipelines.core import schema
from pipelines.core.entries import Finetune
from pipelines.core.errors import UsageError, choices
from pipelines.core.progress import say
from pipelines.core.task import Task

# a key -> the key, and its value, without which it does nothing
COUNTS_UNDER = {
    "top_k": ("strategy", "top_k"),
    "layer_learning_rates": ("strategy", "top_k"),
    "layer_decay": ("strategy", "full"),
    "momentum": ("optimizer", "sgd"),
}


def finetune(key: str, entry: Finetune, task: Task) -> None:
    """Refuse what rows of the task's kind do not have; say what does nothing."""
    schema.check_trained(task.kind)
    if entry.dev and entry.dev not in task.splits:
        raise UsageError(f"params.yaml: finetune.{key}.dev: {choices('split', entry.dev, task.splits)}")
    if entry.patience and not entry.dev:
        raise UsageError(f"params.yaml: finetune.{key}.patience: {entry.patience}; name a split to look at as dev")
    if entry.class_weights == "balanced" and task.kind not in ("single", "pair", "tagging"):
        raise UsageError(f"params.yaml: finetune.{key}.class_weights: rows of kind {task.kind} have no classes")
    if entry.label_smoothing and task.kind == "regression":
        raise UsageError(f"params.yaml: finetune.{key}.label_smoothing: rows of kind regression have no labels")
    for name, (of, value) in COUNTS_UNDER.items():
        if name in entry.model_fields_set and getattr(entry, of) != value:
            say(f"finetune {key}: {name} counts where {of} is {value}; here it does nothing")
