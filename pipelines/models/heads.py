"""The head for each kind of rows: the family's own, or one of ours on the encoder's features."""

from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from pipelines.core.task import Task
from pipelines.models import backbones
from pipelines.models.batch import Batch
from pipelines.models.features import (
    FeaturesForSequenceClassification,
    FeaturesForTokenClassification,
)
from pipelines.text.encoding.tagging import tags

OURS: dict[Any, type[PreTrainedModel]] = {
    AutoModelForSequenceClassification: FeaturesForSequenceClassification,
    AutoModelForTokenClassification: FeaturesForTokenClassification,
}
AUTO: dict[str, Any] = dict.fromkeys(("single", "pair", "regression"), AutoModelForSequenceClassification)
AUTO |= {
    "span": AutoModelForQuestionAnswering,
    "tagging": AutoModelForTokenClassification,
    "choice": AutoModelForMultipleChoice,
}


def names(task: Task) -> dict[str, Any]:
    """The values of a config that name the task's labels."""
    if task.kind in ("span", "choice"):
        return {"num_labels": 2, "problem_type": None}  # the values of a config that was never fine-tuned
    labels = tags(task) if task.kind == "tagging" else ["value"] if task.kind == "regression" else task.labels
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    return names | {"problem_type": "regression" if task.kind == "regression" else None}


def outputs(model: nn.Module, kind: str, inputs: Batch) -> torch.Tensor:
    """The model's outputs for S sequences (S, T).

    (S, C) for labels, (S, 1) for a number or one choice, (S, T, C) for tags, (S, T, 2) for start and end of a span.
    """
    encoder_inputs = backbones.inputs(model, inputs)
    if kind == "choice":
        encoder_inputs = {name: tensor[:, None] for name, tensor in encoder_inputs.items()}
    output = model(**encoder_inputs)
    return torch.stack([output.start_logits, output.end_logits], dim=-1) if kind == "span" else output.logits


def shape(task: Task, length: int) -> tuple[int, ...]:
    """The shape of `outputs` for one sequence of `length` tokens."""
    if task.kind == "span":
        return 1, length, 2
    if task.kind == "choice":
        return 1, 1
    count = len(names(task)["id2label"])
    return (1, length, count) if task.kind == "tagging" else (1, count)


def head_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Parameters above the encoder: the classifier, and a native head's pooler."""
    inside = {id(p) for p in backbones.encoder_parameters(model)}
    return [p for p in model.parameters() if id(p) not in inside]
