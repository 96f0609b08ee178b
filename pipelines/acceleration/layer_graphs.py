"""Layers as a CUDA graph: the host launches a whole pass at once, instead of some eight hundred kernels.

In a step with few tokens a GPU waits for the host. A graph (NVIDIA, CUDA C++ Programming Guide, "CUDA Graphs") is
recorded for one shape. Therefore the number of tokens is rounded up (`varlen_attention.Flat`), and a shape is recorded
when it occurs for the second time. Weights are copied into the graph's memory before each pass, gradients out of it
after each pass. Dropout draws from the same generator as without a graph.
"""

import weakref
from collections.abc import Callable, Hashable
from itertools import chain
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.function import once_differentiable

from pipelines.acceleration import bert_layers, weight_copies
from pipelines.core.progress import say

MOST = 32  # the most graphs of a training


class Rows(NamedTuple):
    """The bounds of rows among tokens, as `varlen_attention.attend` reads them."""

    bounds: torch.Tensor
    longest: int


class Weights:
    """The layers' weights in 16 bits, and their gradients, in memory that all graphs share."""

    def __init__(self, groups: list[weight_copies.Group], kind: torch.dtype) -> None:
        params = tuple(chain(*groups))
        self.counts = [len(group) for group in groups]
        self.places, self.copied = weight_copies.places(params, self.counts, kind)
        self.gradients = weight_copies.places(params, self.counts, kind)[1]


class LayerGraphs:
    """The graphs of a model's `layers`, by shape."""

    def __init__(self, layers: list[nn.Module]) -> None:
        self.layers, self.off = layers, False
        self.groups: list[weight_copies.Group] = []  # the weights of all layers
        self.recorded: dict[Hashable, Recording] = {}
        self.seen: set[Hashable] = set()
        self.weights: Weights | None = None
        self.memory: Any = None  # for what a forward pass keeps for its backward pass; all graphs share it
        self.open: Callable[[], Any] = lambda: None  # the forward pass, if any, whose backward pass has not run yet

    def can(self) -> bool:
        """Return whether the next pass may use a graph: it trains, on one GPU, and no hook reads between layers."""
        if self.off or not self.layers or not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            return False
        if dist.is_initialized() and dist.get_world_size() > 1:  # not tested with several workers
            return False
        if any(layer._forward_hooks or layer._forward_pre_hooks for layer in self.layers):
            return False
        of_layers = [bert_layers.weights(layer) for layer in self.layers]
        self.groups = [group for groups in of_layers for group in groups or []]
        return all(of_layers)

    def output(self, states: torch.Tensor, rows: Any) -> torch.Tensor | None:
        """The states after the last layer, (1, N, H); None if the layers must be computed one by one."""
        learns = tuple(any(weight.requires_grad for weight in group) for group in self.groups)
        if self.open() is not None or not (states.requires_grad or any(learns)):
            return None
        dropouts = tuple(bert_layers.dropouts(layer) for layer in self.layers)
        key = (states.shape, states.dtype, len(rows.bounds), rows.longest, states.requires_grad, learns, dropouts)
        if key not in self.recorded:
            if key not in self.seen or len(self.recorded) == MOST:
                self.seen.add(key)
                return None
            if not self._record(key, learns, states, rows):
                return None
        params = tuple(chain(*self.groups))
        output: torch.Tensor = _Replay.apply(self, self.recorded[key], states, rows.bounds, *params)
        return output

    def _record(self, key: Hashable, learns: tuple[bool, ...], states: torch.Tensor, rows: Any) -> bool:
        on_gpu = states.is_cuda
        if self.weights is None:
            self.weights = Weights(self.groups, states.dtype)
            self.memory = torch.cuda.graph_pool_handle() if on_gpu else None
        try:
            with torch.random.fork_rng([states.device] if on_gpu else []):
                self.recorded[key] = Recording(self, learns, states, rows)
        except RuntimeError as error:  # such as too little memory, which may suffice without graphs
            self.off, self.weights = True, None
            self.recorded.clear()
            say(f"acceleration: CUDA graphs of layers are off from here on: {str(error).splitlines()[0]}")
        return not self.off


class Recording:
    """The forward and backward pass of the layers for one shape: two graphs, and the tensors that they use."""

    def __init__(self, graphs: LayerGraphs, learns: tuple[bool, ...], states: torch.Tensor, rows: Any) -> None:
        assert graphs.weights is not None
        self.layers, self.learns, self.weights = graphs.layers, learns, graphs.weights
        self.reads_back = states.requires_grad
        self.states, self.back, self.given = (torch.zeros_like(states, requires_grad=False) for _ in range(3))
        self.rows = Rows(rows.bounds.clone(), rows.longest)
        self.forward = _recorded(self._forward, states, graphs.memory)
        self.backward = _recorded(self._backward, states, graphs.memory)
        if states.is_cuda:
            del self.start, self.leaves, self.end  # only the graphs use the tensors in between

    @torch.enable_grad()
    def _forward(self) -> None:
        copied = self.weights.copied
        self.leaves = [weight.detach().requires_grad_(on) for weight, on in zip(copied, self.learns, strict=True)]
        self.start = states = self.states.detach().requires_grad_(self.reads_back)
        count = len(self.leaves) // len(self.layers)
        for number, layer in enumerate(self.layers):
            of_layer = tuple(self.leaves[number * count : (number + 1) * count])
            states = bert_layers.from_copies(layer, of_layer, states, self.rows)
        self.end, self.output = states, states.detach()

    def _backward(self) -> None:
        leaves = [self.start, *self.leaves]
        places = [self.back, *self.weights.gradients]
        learning = [i for i, leaf in enumerate(leaves) if leaf.requires_grad]
        gradients = torch.autograd.grad(self.end, [leaves[i] for i in learning], self.given)
        torch._foreach_copy_([places[i] for i in learning], gradients)


def _recorded(work: Callable[[], None], states: torch.Tensor, memory: Any) -> Callable[[], None]:
    """`work` as a graph that can be replayed; without a GPU, `work` itself."""
    if not states.is_cuda:
        work()
        return work
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, pool=memory, capture_error_mode="thread_local"):
            work()
    finally:
        torch.cuda.set_stream(stream)  # after an error it may still be the stream of the recording
    return graph.replay  # type: ignore[no-any-return]


class _Open:
    """Represents a forward pass whose backward pass has not run yet."""


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, graphs: LayerGraphs, recording: Recording, states: torch.Tensor, bounds: torch.Tensor, *params: Any
    ) -> torch.Tensor:
        recording.states.copy_(states)
        recording.rows.bounds.copy_(bounds)
        torch._foreach_copy_(recording.weights.places, params)
        recording.forward()
        ctx.graphs, ctx.recording, ctx.params, ctx.open = graphs, recording, params, _Open()
        graphs.open = weakref.ref(ctx.open)
        return recording.output.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        recording, graphs = ctx.recording, ctx.graphs
        assert graphs.open() is ctx.open, "the graph's memory holds another pass"
        recording.given.copy_(gradient)
        recording.backward()
        graphs.open = lambda: None
        weights, learns = recording.weights, ctx.needs_input_grad[4:]
        places, groups = weight_copies.places(ctx.params, weights.counts, ctx.params[0].dtype)
        torch._foreach_copy_(groups, weights.gradients)
        of_params = [place if on else None for place, on in zip(places, learns, strict=True)]
        return None, None, recording.back.clone() if recording.reads_back else None, None, *of_params
