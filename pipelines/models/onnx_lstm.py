"""LSTMs for an ONNX export: one operator per layer, with one direction or both.

torch 2.13's own export is right for the first LSTM of a process only; later LSTMs get the fixed length of the example.
"""

import torch
from torch import nn

GATES = [0, 3, 1, 2]  # torch's gates input, forget, cell, output in ONNX's order: input, output, forget, cell


def states(lstm: nn.LSTM, x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """The states (B, T, D * H) of `lstm` (batch first, D directions) for (B, T, F), as ONNX operators in an export.

    Args:
        lengths: lengths of the rows, (B,). The backward direction starts at their ends; states at padding are zero.
    """
    directions = ["", "_reverse"] if lstm.bidirectional else [""]
    direction = "bidirectional" if lstm.bidirectional else "forward"
    x = x.transpose(0, 1)
    for number in range(lstm.num_layers):
        weights = [_weights(lstm, f"l{number}{which}") for which in directions]
        inputs = [x, *(torch.stack(tensors) for tensors in zip(*weights, strict=True)), lengths]
        shape = (x.shape[0], len(directions), x.shape[1], lstm.hidden_size)
        (outputs,) = torch.onnx.ops.symbolic_multi_out(
            "LSTM",
            inputs,
            {"hidden_size": lstm.hidden_size, "direction": direction},
            dtypes=[x.dtype],
            shapes=[shape],
        )
        x = outputs.transpose(1, 2).flatten(2)
    return x.transpose(0, 1)


def _weights(lstm: nn.LSTM, which: str) -> list[torch.Tensor]:
    """ONNX's W (4 * H, F), R (4 * H, H) and B (8 * H,) for one direction of a layer."""
    named = [getattr(lstm, f"{name}_{which}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    inputs, hidden, *biases = (weight.unflatten(0, (4, lstm.hidden_size))[GATES].flatten(0, 1) for weight in named)
    return [inputs, hidden, torch.cat(biases)]
