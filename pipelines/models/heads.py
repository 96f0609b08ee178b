"""Heads by the kind of rows: the family's own, or one of ours on the encoder's features."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from pipelines.core.errors import InputError, UsageError
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.models import backbones, opening
from pipelines.models.batch import Batch
from pipelines.models.features import (
    FeaturesConfig,
    FeaturesForSequenceClassification,
    FeaturesForTokenClassification,
    FeaturesModel,
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


def for_task(
    encoder_folder: Path, task: Task, head: str = "native", pooling: str = "cls", features: str = "last"
) -> PreTrainedModel:
    """The encoder in `encoder_folder` with a new head for `task`: "native", or "linear", "mlp" or "bilstm" of ours.

    The encoder of a fine-tuned model goes too, without that model's head (Phang et al. 2018: fine-tuned twice).
    """
    names, auto = _names(task), AUTO[task.kind]
    if pooling == "compare" and task.kind not in ("pair", "regression"):
        raise UsageError(
            f"params.yaml: finetune: pooling: compare: rows of kind {task.kind} have no two texts to compare"
        )
    for name, value, own in (("pooling", pooling, "cls"), ("features", features, "last")):
        if head == "native" and value != own:
            raise UsageError(f"params.yaml: finetune: {name}: {value}: the native head has its own; name one of ours")
    if head != "native":
        if auto not in OURS:
            raise UsageError(f"params.yaml: finetune: head: {head}: rows of kind {task.kind} take the native head")
        body = _body(encoder_folder)
        if features.endswith("_four") and len(backbones.layers(body)) < 4:
            count = len(backbones.layers(body))
            raise UsageError(f"params.yaml: finetune: features: {features}: the encoder has {count} layers")
        model: Any = OURS[auto](FeaturesConfig(body.config, features, head, pooling, **names))
        model.encoder.load_state_dict(body.state_dict(), strict=False)  # all but the pooler, which it has not
        return model
    return _native(auto, encoder_folder, task, names)


def _native(auto: Any, folder: Path, task: Task, names: dict[str, Any]) -> PreTrainedModel:
    """The model of transformers' class `auto` with the encoder of `folder`; a head of the folder's own is not taken."""
    tuned = _body(folder) if (folder / TASK_FILE).is_file() else None
    config = tuned.config if tuned else AutoConfig.from_pretrained(folder)
    family = config.model_type
    if family == "xlnet" and task.kind not in ("span", "tagging"):
        names["summary_type"] = "first"  # where we put [CLS]; its own is the last place, in a batch a row's padding
    try:
        if not tuned:
            return opening.with_encoder(auto, folder, **names)[0]
        config.update(names)
        model = auto.from_config(config)
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        raise InputError(f"{folder}: the {family} family has no head of its own for rows of kind {task.kind}") from None
    backbones.encoder(model).load_state_dict(tuned.state_dict(), strict=False)  # some have no pooler
    return model


def _body(folder: Path) -> Any:
    """The encoder of a folder, without the head that it may have been fine-tuned with."""
    ours = AutoConfig.from_pretrained(folder).model_type == FeaturesConfig.model_type
    return backbones.encoder(opening.with_encoder(FeaturesModel if ours else AutoModel, folder)[0])


def _names(task: Task) -> dict[str, Any]:
    """What a config says of the labels, whatever it said before."""
    if task.kind in ("span", "choice"):
        return {"num_labels": 2, "problem_type": None}  # as if never fine-tuned
    labels = tags(task) if task.kind == "tagging" else ["value"] if task.kind == "regression" else task.labels
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    return names | {"problem_type": "regression" if task.kind == "regression" else None}


def outputs(model: nn.Module, kind: str, inputs: Batch) -> torch.Tensor:
    """What the model says of S sequences (S, T).

    (S, C) of labels, (S, 1) of a number or of one choice, (S, T, C) of tags, (S, T, 2) of a span's ends.
    """
    taken = backbones.inputs(model, inputs)
    if kind == "choice":
        taken = {name: tensor[:, None] for name, tensor in taken.items()}
    output = model(**taken)
    return torch.stack([output.start_logits, output.end_logits], dim=-1) if kind == "span" else output.logits


def head_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Parameters above the encoder: the classifier, and a native head's pooler."""
    inside = {id(p) for p in backbones.encoder_parameters(model)}
    return [p for p in model.parameters() if id(p) not in inside]
