"""Our own heads on an encoder's features: a choice of layers and pooling under a linear layer, an MLP or a BiLSTM.

The combinations of layers are from BERT's feature-based experiment (Devlin et al. 2018, table 7).
"""

from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput

from pipelines.core.errors import InputError, choices
from pipelines.models import (
    backbones,
    bilstm,  # noqa: F401 (an encoder may be one)
    onnx_lstm,
)

# name -> function from the L + 1 states (B, T, H) of the embeddings and all layers to features (B, T, F)
COMBINATIONS = {
    "embeddings": lambda states: states[0],
    "second_to_last": lambda states: states[-2],
    "last": lambda states: states[-1],
    "sum_last_four": lambda states: torch.stack(states[-4:]).sum(dim=0),
    "concat_last_four": lambda states: torch.cat(states[-4:], dim=-1),
}  # and "weighted_sum", with a learned weight per layer (Peters et al. 2018, eq. 1)

FEATURES = (*COMBINATIONS, "weighted_sum")
HEADS, POOLINGS = ("linear", "mlp", "bilstm"), ("cls", "mean", "compare", "ends")


class FeaturesConfig(PreTrainedConfig):
    """The config of an encoder and of the head that reads its layers.

    features: a name of COMBINATIONS or "weighted_sum"; head: "linear", "mlp" or "bilstm"; pooling: the vector of a
    sequence: "cls", the "mean" of all tokens, or "compare": the means u and v of its two texts, |u - v| and u * v
    (Conneau et al. 2017, InferSent). An encoder with two directions can also use "ends": the last state of each
    direction, forward at the last token and backward at the first (Tang et al. 2019).
    """

    model_type = "bertline_features"
    sub_configs = {"encoder": AutoConfig}  # transformers' name for configs inside a config

    def __init__(
        self,
        encoder: dict[str, Any] | PreTrainedConfig | None = None,
        features: str = "last",
        head: str = "linear",
        pooling: str = "cls",
        **kwargs: Any,
    ) -> None:
        for key, value, known in (
            ("features", features, FEATURES),
            ("head", head, HEADS),
            ("pooling", pooling, POOLINGS),
        ):
            if value not in known:
                raise InputError(f"{key}: {choices(key, value, known)}")
        self.features, self.head, self.pooling = features, head, pooling
        self.encoder = AutoConfig.for_model(**encoder) if isinstance(encoder, dict) else encoder
        super().__init__(**kwargs)


class FeaturesModel(PreTrainedModel):
    """An encoder, features, dropout and a head: ids (B, T) to (B, T, C), or pooled to (B, C)."""

    config_class = FeaturesConfig
    base_model_prefix = "encoder"
    # transformers checks this before it sets a kernel; the encoder inside checks its own kernels
    _supports_sdpa = True

    def __init__(self, config: FeaturesConfig) -> None:
        super().__init__(config)
        inner: Any = config.encoder
        if inner is None:
            raise InputError("encoder: missing; it must be the config of the encoder below the head")
        pooler = {"add_pooling_layer": False} if inner.model_type in ("bert", "roberta") else {}
        self.encoder = AutoModel.from_config(inner, **pooler)
        config.encoder = self.encoder.config  # one object, so that a change of its layers is saved too
        self.dropout = nn.Dropout(getattr(inner, "hidden_dropout_prob", 0.1))
        width, count = inner.hidden_size, len(config.id2label or {})
        size = 4 * width if config.features == "concat_last_four" else width
        if config.features == "weighted_sum":
            self.weights, self.scale = (
                nn.Parameter(torch.zeros(inner.num_hidden_layers + 1)),
                nn.Parameter(torch.ones(1)),
            )
        if config.head == "bilstm":  # two layers, as wide as the encoder
            self.lstm = nn.LSTM(size, width // 2, num_layers=2, batch_first=True, bidirectional=True)
            size = width
        size *= 4 if config.pooling == "compare" else 1
        last = nn.Linear(width if config.head == "mlp" else size, count)
        self.classifier = nn.Sequential(nn.Linear(size, width), nn.GELU(), last) if config.head == "mlp" else last
        self.post_init()

    def tokens(self, input_ids: torch.Tensor | None, inputs: dict[str, Any]) -> torch.Tensor:
        """Features of every token, (B, T, F), after the BiLSTM if there is one."""
        name = self.config.features
        if not backbones.backbone(self).token_types:
            inputs = {key: tensor for key, tensor in inputs.items() if key != "token_type_ids"}
        output = self.encoder(
            input_ids=input_ids, **inputs, **({} if name == "last" else {"output_hidden_states": True})
        )
        if name == "last":
            features = output.last_hidden_state
        elif name == "weighted_sum":
            shares = self.weights.softmax(dim=0)[:, None, None, None]
            features = self.scale * (shares * torch.stack(output.hidden_states)).sum(dim=0)
        else:
            features = COMBINATIONS[name](output.hidden_states)
        features = self.dropout(features)
        return self._read(features, inputs.get("attention_mask")) if self.config.head == "bilstm" else features

    def _read(self, features: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """The states of the BiLSTM. It skips padding, so a row's states do not depend on its batch."""
        if torch.onnx.is_in_onnx_export():
            return onnx_lstm.states(self.lstm, features, None if mask is None else mask.sum(dim=1).int())
        if mask is None:
            return self.lstm(features)[0]
        packed = nn.utils.rnn.pack_padded_sequence(
            features, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
        return states


class FeaturesForSequenceClassification(FeaturesModel):
    def forward(
        self, input_ids: torch.Tensor | None = None, pooled: torch.Tensor | None = None, **inputs: Any
    ) -> SequenceClassifierOutput | tuple[Any, ...]:
        """The logits (B, C). `pooled` (B, F) replaces the ids if a frozen encoder has already read them."""
        labels, return_dict = inputs.pop("labels", None), inputs.pop("return_dict", True)
        logits = self.classifier(self.pool(input_ids, inputs) if pooled is None else self.dropout(pooled))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        output = SequenceClassifierOutput(loss=loss, logits=logits)
        return output if return_dict else output.to_tuple()

    def pool(self, input_ids: torch.Tensor | None, inputs: dict[str, Any]) -> torch.Tensor:
        """The vectors that the head reads: (B, F), or (B, 4F) if two texts are compared."""
        features = self.tokens(input_ids, inputs)
        if self.config.pooling == "cls":
            return features[:, 0]
        mask = inputs.get("attention_mask")
        inside = torch.ones_like(features[:, :, 0]) if mask is None else mask.to(features.dtype)
        if self.config.pooling == "ends":
            last = (inside.sum(dim=1).long() - 1)[:, None, None].expand(-1, 1, features.shape[2])
            forward, backward = features.gather(1, last)[:, 0].chunk(2, dim=1)[0], features[:, 0].chunk(2, dim=1)[1]
            return torch.cat([forward, backward], dim=1)
        if self.config.pooling == "mean":
            return _mean(features, inside)
        second = inputs["token_type_ids"].to(features.dtype)
        u, v = _mean(features, inside * (1 - second)), _mean(features, inside * second)
        return torch.cat([u, v, (u - v).abs(), u * v], dim=-1)


def _mean(features: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The mean of (B, T, F) over the tokens whose weight (B, T) is 1."""
    return (features * weights[:, :, None]).sum(dim=1) / weights.sum(dim=1, keepdim=True).clamp(min=1)


class FeaturesForTokenClassification(FeaturesModel):
    def forward(self, input_ids: torch.Tensor | None = None, **inputs: Any) -> TokenClassifierOutput | tuple[Any, ...]:
        labels, return_dict = inputs.pop("labels", None), inputs.pop("return_dict", True)
        logits = self.classifier(self.tokens(input_ids, inputs))
        loss = None if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        output = TokenClassifierOutput(loss=loss, logits=logits)
        return output if return_dict else output.to_tuple()


AutoConfig.register(FeaturesConfig.model_type, FeaturesConfig)
AutoModelForSequenceClassification.register(FeaturesConfig, FeaturesForSequenceClassification)
AutoModelForTokenClassification.register(FeaturesConfig, FeaturesForTokenClassification)
