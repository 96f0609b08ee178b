"""Classification heads: the family's own, or one linear layer on the [CLS] vector or on the mean of all."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import logging as hf_logging
from transformers.modeling_outputs import SequenceClassifierOutput

from pipelines.models import backbones, bilstm  # noqa: F401 (transformers opens bilstm folders from then on)


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


def classifier(encoder_folder: Path, head: str, labels: tuple[str, ...], pooling: str = "cls") -> PreTrainedModel:
    """The encoder in `encoder_folder` with a new head for `labels`; `head` is "native" or "linear"."""
    hf_logging.set_verbosity_error()  # what it would report is meant: the old head goes, the new one is random
    hf_logging.disable_progress_bar()
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    if head == "native":
        return AutoModelForSequenceClassification.from_pretrained(encoder_folder, dtype=torch.float32, **names)
    body = AutoModel.from_pretrained(encoder_folder, dtype=torch.float32)
    model = PooledLinearForSequenceClassification(PooledLinearConfig(encoder=body.config, pooling=pooling, **names))
    model.encoder.load_state_dict(body.state_dict(), strict=False)  # all but the pooler, which it has not
    return model


def head_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Parameters above the encoder: the classifier, and a native head's pooler."""
    inside = {id(p) for p in backbones.encoder_parameters(model)}
    return [p for p in model.parameters() if id(p) not in inside]
