"""Classification heads: the family's own, or [CLS] to one linear layer as the keynote's program has it."""

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

from pipelines.models import backbones


class ClsLinearConfig(PreTrainedConfig):
    """An encoder's config, and what its linear head needs."""

    model_type = "bertline_cls_linear"
    sub_configs = {"encoder": AutoConfig}  # transformers' name for configs inside a config

    def __init__(self, encoder: dict[str, Any] | PreTrainedConfig | None = None, **kwargs: Any) -> None:
        self.encoder = AutoConfig.for_model(**encoder) if isinstance(encoder, dict) else encoder
        super().__init__(**kwargs)


class ClsLinearForSequenceClassification(PreTrainedModel):
    """The last layer's vector of the first token, dropout, one linear layer: (B, T) ids to (B, C) logits."""

    config_class = ClsLinearConfig
    base_model_prefix = "encoder"
    # transformers asks a model which attention kernels it can take; the encoder inside answers for itself
    _supports_sdpa = True

    def __init__(self, config: ClsLinearConfig) -> None:
        super().__init__(config)
        inner = config.encoder
        pooler = {"add_pooling_layer": False} if inner.model_type in ("bert", "roberta") else {}
        self.encoder = AutoModel.from_config(inner, **pooler)
        config.encoder = self.encoder.config  # one object: a change of its layers is a change of what is saved
        self.dropout = nn.Dropout(getattr(inner, "hidden_dropout_prob", 0.1))
        self.classifier = nn.Linear(inner.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids: torch.Tensor | None = None, **inputs: Any) -> SequenceClassifierOutput:
        labels, return_dict = inputs.pop("labels", None), inputs.pop("return_dict", True)
        hidden = self.encoder(input_ids=input_ids, **inputs).last_hidden_state  # (B, T, H)
        logits = self.classifier(self.dropout(hidden[:, 0]))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        output = SequenceClassifierOutput(loss=loss, logits=logits)
        return output if return_dict else output.to_tuple()


AutoConfig.register(ClsLinearConfig.model_type, ClsLinearConfig)
AutoModelForSequenceClassification.register(ClsLinearConfig, ClsLinearForSequenceClassification)


def classifier(encoder_folder: Path, head: str, labels: tuple[str, ...]) -> PreTrainedModel:
    """The encoder in `encoder_folder` with a new head for `labels`; `head` is "native" or "linear"."""
    hf_logging.set_verbosity_error()  # what it would report is meant: the old head goes, the new one is random
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    if head == "native":
        return AutoModelForSequenceClassification.from_pretrained(encoder_folder, dtype=torch.float32, **names)
    body = AutoModel.from_pretrained(encoder_folder, dtype=torch.float32)
    model = ClsLinearForSequenceClassification(ClsLinearConfig(encoder=body.config, **names))
    model.encoder.load_state_dict(body.state_dict(), strict=False)  # all but the pooler, which it has not
    return model


def head_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Parameters outside the encoder's embeddings and layers: the classifier, and a native head's pooler."""
    inside = {id(p) for part in (backbones.embeddings(model), backbones.layers(model)) for p in part.parameters()}
    return [p for p in model.parameters() if id(p) not in inside]
