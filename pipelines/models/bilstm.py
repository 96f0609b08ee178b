"""Two LSTM language models, one reading forward and one backward (ELMo, Peters et al. 2018)."""

from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from pipelines.models import onnx_lstm


class BilstmConfig(PreTrainedConfig):
    """The config of a BiLSTM. `hidden_size` is the sum of both directions; each has half of it."""

    model_type = "bilstm"

    def __init__(
        self,
        vocab_size: int = 30522,
        hidden_size: int = 256,
        num_hidden_layers: int = 2,
        num_attention_heads: int = 1,  # no heads exist, but every encoder config has this key
        max_position_embeddings: int = 512,
        hidden_dropout_prob: float = 0.1,
        pad_token_id: int = 0,
        **kwargs: Any,
    ) -> None:
        if hidden_size % 2:
            raise ValueError(f"hidden_size {hidden_size} is not divisible by 2: each direction has half of it")
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.num_attention_heads, self.max_position_embeddings = num_attention_heads, max_position_embeddings
        self.hidden_dropout_prob = hidden_dropout_prob
        super().__init__(**kwargs)
        self.pad_token_id = pad_token_id


class BilstmLayer(nn.Module):
    """One LSTM per direction, with residual connections."""

    def __init__(self, config: BilstmConfig) -> None:
        super().__init__()
        width = config.hidden_size // 2
        self.forward_lstm = nn.LSTM(width, width, batch_first=True)
        self.backward_lstm = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, ahead: torch.Tensor, back: torch.Tensor, mirror: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns both streams, (B, T, H / 2) each; `mirror` (B, T, 1) reverses each row within its length."""
        forward = _states(self.forward_lstm, self.dropout(ahead))
        backward = _states(self.backward_lstm, _turn(self.dropout(back), mirror))
        return ahead + forward, back + _turn(backward, mirror)


def _states(lstm: nn.LSTM, x: torch.Tensor) -> torch.Tensor:
    hidden: torch.Tensor = onnx_lstm.states(lstm, x) if torch.onnx.is_in_onnx_export() else lstm(x)[0]
    return hidden


class BilstmPreTrainedModel(PreTrainedModel):
    config_class = BilstmConfig
    base_model_prefix = "bilstm"
    _supports_sdpa = True  # it has no attention, so the attention kernel does not matter

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)


class BilstmModel(BilstmPreTrainedModel):
    """The encoder: ids (B, T) to hidden states (B, T, H), the half of the forward stream first."""

    def __init__(self, config: BilstmConfig) -> None:
        super().__init__(config)
        self.embeddings: nn.Module = nn.Embedding(config.vocab_size, config.hidden_size // 2, config.pad_token_id)
        self.layers = nn.ModuleList(BilstmLayer(config) for _ in range(config.num_hidden_layers))
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embeddings = value

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        mirror = _mirror(torch.ones_like(input_ids) if attention_mask is None else attention_mask)
        ahead = back = self.embeddings(input_ids)
        states = [torch.cat([ahead, back], dim=-1)]
        for layer in self.layers:
            ahead, back = layer(ahead, back, mirror)
            states.append(torch.cat([ahead, back], dim=-1))
        return BaseModelOutput(
            last_hidden_state=states[-1], hidden_states=tuple(states) if output_hidden_states else None
        )


class BilstmForPreTraining(BilstmPreTrainedModel):
    """The two streams and their shared output layer."""

    _tied_weights_keys = {"decoder.weight": "bilstm.embeddings.weight"}

    def __init__(self, config: BilstmConfig) -> None:
        super().__init__(config)
        self.bilstm = BilstmModel(config)
        self.decoder = nn.Linear(config.hidden_size // 2, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.decoder = new_embeddings

    def forward(self, input_ids: torch.Tensor, **inputs: Any) -> BaseModelOutput:
        return self.bilstm(input_ids, **inputs)


def _mirror(mask: torch.Tensor) -> torch.Tensor:
    """Positions (B, T, 1) that reverse the tokens of each row, from the attention mask (B, T)."""
    places = torch.arange(mask.shape[1], device=mask.device)
    lengths = mask.sum(dim=1, keepdim=True)
    return torch.where(places < lengths, lengths - 1 - places, places)[:, :, None]


def _turn(states: torch.Tensor, mirror: torch.Tensor) -> torch.Tensor:
    return states.gather(1, mirror.expand(-1, -1, states.shape[2]))


AutoConfig.register(BilstmConfig.model_type, BilstmConfig)
AutoModel.register(BilstmConfig, BilstmModel)
AutoModelForPreTraining.register(BilstmConfig, BilstmForPreTraining)
