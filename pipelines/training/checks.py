"""Check that an entry of finetune fits its task, and that its keys fit together."""

from pipelines.core import schema
from pipelines.core.errors import UsageError, choices
from pipelines.core.progress import say
from pipelines.core.task import Task
from pipelines.entries.finetune import Finetune

# key -> the other key, and the value that it needs for the first key to have an effect
COUNTS_UNDER = {
    "top_k": ("strategy", "top_k"),
    "layer_learning_rates": ("strategy", "top_k"),
    "layer_decay": ("strategy", "full"),
    "momentum": ("optimizer", "sgd"),
}


def finetune(key: str, entry: Finetune, task: Task) -> None:
    """Raise UsageError for keys that do not fit the kind of rows; print a warning for keys without effect."""
    schema.check_trained(task.kind)
    dev(f"finetune.{key}", entry.dev, task)
    if entry.patience and not entry.dev:
        raise UsageError(f"params.yaml: finetune.{key}.patience: {entry.patience}; it needs a split: set dev")
    if entry.class_weights == "balanced" and task.kind not in ("single", "pair", "tagging"):
        raise UsageError(f"params.yaml: finetune.{key}.class_weights: rows of kind {task.kind} have no classes")
    if entry.label_smoothing and task.kind == "regression":
        raise UsageError(f"params.yaml: finetune.{key}.label_smoothing: rows of kind regression have no labels")
    for name, (of, value) in COUNTS_UNDER.items():
        if name in entry.model_fields_set and getattr(entry, of) != value:
            say(f"finetune {key}: {name} has an effect only if {of} is {value}; here it has none")


def dev(where: str, split: str, task: Task) -> None:
    """Raise UsageError unless a model can be scored on `split` while it trains; "" stands for no split."""
    if split and split not in task.splits:
        raise UsageError(f"params.yaml: {where}.dev: {choices('split', split, task.splits)}")
    if split == "train":
        raise UsageError(f"params.yaml: {where}.dev: the model learns from train; name another split")
