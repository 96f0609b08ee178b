"""Sequence packing: the layers work on fewer and fuller rows, which hold the rows of a padded batch one after another.

Padding then costs almost nothing, and batches can be drawn at random. Batches of rows of similar length have as little
padding, but train worse models if length depends on the label, as in headlines. No row sees another: attention is
masked between them (Krell et al. 2021, Efficient sequence packing without cross-contamination). B rows of T tokens
become R rows of P. On a GPU in bf16, BERT-like families use one row without any padding: see `varlen_attention`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from pipelines.acceleration import bert_layers, layer_graphs, varlen_attention
from pipelines.models import backbones
from pipelines.models.batch import Batch
from pipelines.models.quantization import fake_quantization

# P is the width with the least work: from the larger of LEAST and the longest row, to the larger of MOST
# and MORE times the longest row, in steps of the larger of STEP and 1/32 of the longest row
LEAST, MOST, MORE, STEP = 48, 96, 1.5, 8
GAIN = 0.95  # a batch is packed if the packed rows have less than this share of its padded places


class _Places:
    """The places of one batch's tokens in the packed rows; `inside` (B, T) bool is True at the tokens of the batch."""

    def __init__(self, inside: torch.Tensor, hidden: int) -> None:
        self.inside, device = inside, inside.device
        lengths = inside.sum(dim=1).tolist()
        bins = _least_work(lengths, hidden)
        self.shape = _shape(lengths, bins)
        of, at = (torch.zeros(self.shape, dtype=torch.int64) for _ in range(2))  # (R, P): the row, and the place in it
        number = torch.zeros(self.shape, dtype=torch.int64)  # the number of the row in its bin, from 1; 0 is padding
        spots = torch.zeros(inside.shape, dtype=torch.int64)  # (B, T): the place in the bins
        for r, rows in enumerate(bins):
            start = 0
            for k, row in enumerate(rows, start=1):
                span = slice(start, start + lengths[row])
                of[r, span], at[r, span], number[r, span] = row, torch.arange(lengths[row]), k
                spots[row, : lengths[row]] = torch.arange(span.start, span.stop) + r * self.shape[1]
                start = span.stop
        self.of, self.at, self.spots = of.to(device), at.to(device), spots.to(device)
        self.tokens = (number > 0).to(device)  # (R, P)
        self.same = (number[:, :, None] == number[:, None, :])[:, None].to(device)  # (R, 1, P, P)

    def together(self, states: torch.Tensor) -> torch.Tensor:
        """(B, T, H) to (R, P, H)."""
        return _rows(states, self.of * self.inside.shape[1] + self.at)

    def apart(self, states: torch.Tensor) -> torch.Tensor:
        """(R, P, H) to (B, T, H), with zeros for padding."""
        return _rows(states, self.spots) * self.inside[:, :, None]

    def mask(self, mask: torch.Tensor) -> torch.Tensor:
        """The layer's mask (B, 1, T, T), additive or bool, for the packed rows: (R, 1, P, P)."""
        packed = mask[self.of[:, :, None], 0, self.at[:, :, None], self.at[:, None, :]][:, None]
        if mask.dtype == torch.bool:
            return packed & self.same
        return packed.masked_fill(~self.same, torch.finfo(mask.dtype).min)


class _Pass:
    """One pass through the layers, which run in order; the first one decides where the tokens go."""

    def __init__(self, layers: list[nn.Module]) -> None:
        self.counting = [observer for layer in layers for observer in fake_quantization.ranges(layer)]
        self.places: _Places | varlen_attention.Flat | None = None
        self.moved: dict[int, Any] = {}
        self.flat: varlen_attention.Flat | None = None  # for the pass that begins
        self.graphs = layer_graphs.LayerGraphs(layers)
        self.through: torch.Tensor | None = None  # the output of all layers, if a graph computed it
        self.expected: tuple[torch.Tensor, torch.Tensor] | None = None  # a mask on a GPU, and its copy on the host

    def on_host(self, mask: torch.Tensor) -> torch.Tensor:
        """The mask (B, T) in the host's memory; a mask that was not expected is fetched from the GPU."""
        if self.expected is not None:
            there, here = self.expected
            if there.data_ptr() == mask.data_ptr() and there.numel() == mask.numel() and mask.is_contiguous():
                return here.reshape(mask.shape)
        return mask.cpu()

    def begin(self, mask: torch.Tensor | None, shape: torch.Size) -> None:
        self.places, self.moved, self.flat, self.through = self.flat, {}, None, None
        if self.places is not None:
            return
        if mask is None or mask.dim() != 4 or mask.shape[-2:] != (shape[1], shape[1]):
            return
        diagonal = torch.diagonal(mask[:, 0], dim1=1, dim2=2)  # a token sees itself; padding is masked
        inside = diagonal if mask.dtype == torch.bool else diagonal == 0
        if inside.all():
            return
        places = _Places(inside, shape[2])
        if places.shape[0] * places.shape[1] < GAIN * inside.numel():
            self.places = places
            fake_quantization.only_at(self.counting, places.tokens)

    def once(self, value: Any, move: Any) -> Any:
        """`move(value)`, computed once per pass, because the layers share masks and positions."""
        if id(value) not in self.moved:
            self.moved[id(value)] = move(value)
        return self.moved[id(value)]


def _layer(
    layer: nn.Module,
    now: _Pass,
    first: bool,
    last: bool,
    states: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    *more: Any,
    **named: Any,
) -> torch.Tensor:
    """Replaces `layer.forward`."""
    forward = partial(type(layer).forward, layer)
    if first:
        now.begin(attention_mask, states.shape)
    places = now.places
    if places is None:  # packed rows always come with a mask, which separates them
        return forward(states, attention_mask, *more, **named)
    if first:
        states = places.together(states)
    if isinstance(places, varlen_attention.Flat):
        return _flat_layer(layer, now, places, states, first, last)
    if named.get("position_embeddings") is not None:
        turn = lambda states_of_rows: tuple(part[0][places.at] for part in states_of_rows)  # noqa: E731
        named["position_embeddings"] = now.once(named["position_embeddings"], turn)
    states = forward(states, now.once(attention_mask, places.mask), *more, **named)
    return places.apart(states) if last else states


def _flat_layer(
    layer: nn.Module, now: _Pass, rows: varlen_attention.Flat, states: torch.Tensor, first: bool, last: bool
) -> torch.Tensor:
    """(1, N, H) to the same, or to (B, T, H) after the last layer.

    If a graph holds all layers, the first layer runs it, and the others return its output.
    """
    if first and rows.rounded:
        now.through = now.graphs.output(states, rows)
    states = bert_layers.output(layer, states, rows) if now.through is None else now.through
    if last:
        now.through = None
    return rows.apart(states) if last else states


def _before(now: _Pass, encoder: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The encoder's inputs with a ready-made mask, if its layers take the tokens of all rows in one row; else None."""
    now.flat, mask = None, kwargs.get("attention_mask")
    asks_for_states = kwargs.get("output_hidden_states") or encoder.config.output_hidden_states
    if mask is None or mask.dim() != 2 or now.counting or not varlen_attention.serves(mask.device):
        return None
    if not bert_layers.can(encoder):
        return None
    rounded = not asks_for_states and now.graphs.can()
    now.flat = varlen_attention.Flat(now.on_host(mask).bool(), mask.device, rounded)
    kwargs["attention_mask"] = mask.bool()[:, None, None, :].expand(-1, 1, mask.shape[1], -1)  # (B, 1, T, T)
    return args, kwargs


def _between(now: _Pass, _: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
    """The encoder's output; its hidden states, if there are any, are unpacked."""
    states = getattr(output, "hidden_states", None)
    if now.places is not None and states is not None:
        output.hidden_states = (states[0], *map(now.places.apart, states[1:-1]), states[-1])
    return output


@contextmanager
def rows(model: nn.Module) -> Iterator[bool]:
    """Inside the block, the layers of `model` work on packed rows, except those whose `forward` is already replaced.

    Yields whether any does: in some families a layer reads more than the output of the layer below.
    """
    able = backbones.backbone(model).plain
    layers = [layer for layer in backbones.layers(model) if able and "forward" not in vars(layer)]
    now = _Pass(layers)
    encoder = backbones.encoder(model)
    hooks = [encoder.register_forward_hook(partial(_between, now))]
    if layers:
        hooks.append(encoder.register_forward_pre_hook(partial(_before, now), with_kwargs=True))
    for layer in layers:
        layer.forward = partial(_layer, layer, now, layer is layers[0], layer is layers[-1])
    try:
        yield bool(layers)
    finally:
        for hook in hooks:
            hook.remove()
        for layer in layers:
            del layer.forward


def expect(model: nn.Module, there: Batch, here: Batch) -> None:
    """Announce the next batch, `there`, to the packed layers of `model`, if it has any; `here` is its copy on the host.

    The layers then know its lengths without waiting for the GPU.
    """
    if "attention_mask" not in here:
        return
    for layer in backbones.layers(model):
        forward = vars(layer).get("forward")
        if isinstance(forward, partial) and forward.func is _layer:
            forward.args[1].expected = there["attention_mask"], here["attention_mask"]
            return


@contextmanager
def off(model: nn.Module) -> Iterator[None]:
    """Inside the block, `rows` leaves the layers of `model` as they are, for a loss that reads attention row by row."""
    layers = [layer for layer in backbones.layers(model) if "forward" not in vars(layer)]
    for layer in layers:
        layer.forward = partial(type(layer).forward, layer)  # its own forward, which `rows` treats as a replaced one
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _rows(states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The states (N, M, H) at `places` (A, B), which are indices into N * M: (A, B, H)."""
    return states.flatten(0, 1).index_select(0, places.flatten()).unflatten(0, places.shape)


def _least_work(lengths: list[int], hidden: int) -> list[list[int]]:
    """The division of rows into bins, over all widths, with the least work for a layer.

    A place costs 24 H^2 operations in the projections and the feed-forward part, and 4 P H in attention. The sum is
    proportional to 6 H + P.
    """
    longest = max(lengths)
    widths = range(max(LEAST, longest), max(MOST, int(MORE * longest)) + 1, max(STEP, longest // 32))
    every = [_fill(lengths, width) for width in widths]
    shapes = [_shape(lengths, bins) for bins in every]
    work = [rows * width * (6 * hidden + width) for rows, width in shapes]
    return every[work.index(min(work))]


def _shape(lengths: list[int], bins: list[list[int]]) -> tuple[int, int]:
    """R and P; P is a multiple of STEP, so that matrix products have few shapes (see `onednn_linear`)."""
    most = max(sum(lengths[row] for row in rows) for rows in bins)
    return len(bins), -(-most // STEP) * STEP


def _fill(lengths: list[int], width: int) -> list[list[int]]:
    """Row numbers in bins of at most `width` tokens: the longest row first, each into the first bin with room."""
    bins: list[list[int]] = []
    room: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        index = next((i for i, free in enumerate(room) if free >= lengths[row]), len(bins))
        if index == len(bins):
            bins.append([])
            room.append(width)
        bins[index].append(row)
        room[index] -= lengths[row]
    return bins
