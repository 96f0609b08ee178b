"""Heads by the kind of rows: the family's own, or one linear layer on the [CLS] vector or on the mean of all."""

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
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import logging as hf_logging
from transformers.modeling_outputs import SequenceClassifierOutput

from pipelines.core.errors import InputError, UsageError
from pipelines.core.task import Task
from pipelines.models import backbones, bilstm  # noqa: F401 (transformers opens bilstm folders from then on)
from pipelines.models.batch import Batch
from pipelines.text.encoding.tagging import tags


class PooledLinearConfig(PreTrainedConfig):
    """An encoder's config, and which vector of its last layer the linear head takes: "cls" or "mean"."""

    model_type = "bertline_pooled_linear"
    sub_configs = {"encoder": AutoConfig}  # transformers' name for configs inside a config

    def __init__(
        self, encoder: dict[str, Any] | PreTrainedConfig | None = None, pooling: str = "cls", **kwargs: Any
    ) -> None:
        self.pooling = pooling
        self.encoder = AutoConfig.for_model(**encoder) if isinstance(encoder, dict) else encoder
        super().__init__(**kwargs)


class PooledLinearForSequenceClassification(PreTrainedModel):
    """One vector of the last layer, dropout, one linear layer: (B, T) ids to (B, C) logits."""

    config_class = PooledLinearConfig
    base_model_prefix = "encoder"
    # transformers asks a model which attention kernels it can take; the encoder inside answers for itself
    _supports_sdpa = True

    def __init__(self, config: PooledLinearConfig) -> None:
        super().__init__(config)
        inner: Any = config.encoder
        pooler = {"add_pooling_layer": False} if inner.model_type in ("bert", "roberta") else {}
        self.encoder = AutoModel.from_config(inner, **pooler)
        config.encoder = self.encoder.config  # one object: a change of its layers is a change of what is saved
        self.dropout = nn.Dropout(getattr(inner, "hidden_dropout_prob", 0.1))
        self.classifier = nn.Linear(inner.hidden_size, len(config.id2label or {}))
        self.post_init()

    def forward(
        self, input_ids: torch.Tensor | None = None, **inputs: Any
    ) -> SequenceClassifierOutput | tuple[Any, ...]:
        labels, return_dict = inputs.pop("labels", None), inputs.pop("return_dict", True)
        hidden = self.encoder(input_ids=input_ids, **inputs).last_hidden_state  # (B, T, H)
        logits = self.classifier(self.dropout(self._pool(hidden, inputs.get("attention_mask"))))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        output = SequenceClassifierOutput(loss=loss, logits=logits)
        return output if return_dict else output.to_tuple()

    def _pool(self, hidden: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """(B, T, H) to (B, H): the first token's vector, or the mean over the tokens that are no padding."""
        if self.config.pooling == "cls":
            return hidden[:, 0]
        if mask is None:
            return hidden.mean(dim=1)
        weights = mask.to(hidden.dtype)[:, :, None]
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


AutoConfig.register(PooledLinearConfig.model_type, PooledLinearConfig)
AutoModelForSequenceClassification.register(PooledLinearConfig, PooledLinearForSequenceClassification)


AUTO: dict[str, Any] = dict.fromkeys(("single", "pair", "regression"), AutoModelForSequenceClassification)
AUTO |= {
    "span": AutoModelForQuestionAnswering,
    "tagging": AutoModelForTokenClassification,
    "choice": AutoModelForMultipleChoice,
}


def for_task(encoder_folder: Path, task: Task, head: str = "native", pooling: str = "cls") -> PreTrainedModel:
    """The encoder in `encoder_folder` with a new head for `task`; `head` is "native" or "linear"."""
    hf_logging.set_verbosity_error()  # what it would report is meant: the old head goes, the new one is random
    hf_logging.disable_progress_bar()
    names = _names(task)
    if head == "native":
        try:
            return AUTO[task.kind].from_pretrained(encoder_folder, dtype=torch.float32, **names)
        except ValueError as error:
            if "Unrecognized configuration class" not in str(error):
                raise
        family = AutoConfig.from_pretrained(encoder_folder).model_type
        raise InputError(f"{encoder_folder}: the {family} family has no head of its own for rows of kind {task.kind}")
    if AUTO[task.kind] is not AutoModelForSequenceClassification:
        raise UsageError(f"params.yaml: finetune: head: linear: rows of kind {task.kind} take the native head")
    body = AutoModel.from_pretrained(encoder_folder, dtype=torch.float32)
    model = PooledLinearForSequenceClassification(PooledLinearConfig(encoder=body.config, pooling=pooling, **names))
    model.encoder.load_state_dict(body.state_dict(), strict=False)  # all but the pooler, which it has not
    return model


def _names(task: Task) -> dict[str, Any]:
    """What a config says of the labels."""
    if task.kind in ("span", "choice"):
        return {}
    labels = tags(task) if task.kind == "tagging" else ["value"] if task.kind == "regression" else task.labels
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    return names | ({"problem_type": "regression"} if task.kind == "regression" else {})


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
