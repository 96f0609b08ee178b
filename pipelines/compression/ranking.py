"""The fastest of several results: what three rounds cannot order is measured again, in turn, until it is decided."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.compression.chains import Tried
from pipelines.measurement import latency_order


def fastest(
    ranked: Sequence[Tried], opens: Callable[[Tried], Path], split_file: Path, threads: int
) -> tuple[Tried, list[str]]:
    """The fastest, and a sentence for each pair that was measured again. Of two that are as fast, the smaller wins.

    Args:
        ranked: by their median latency, the fastest first.
        opens: the folder of a result that its runtime opens.
        split_file: rows that they are asked.
    """
    first, sentences = ranked[0], []
    for other in ranked[1:]:
        if not _overlap(first, other):
            continue
        order = latency_order.compare(opens(first), opens(other), split_file, threads)
        sentence = (
            f"{_name(other)} is {order.ratio:.2f} times as fast as {_name(first)} in {order.rounds} rounds in turn"
        )
        if order.decided:
            sentences.append(sentence)
            first = other if order.ratio > 1 else first
        else:
            sentences.append(f"{sentence}, which decides nothing: the smaller one goes first")
            first = min(first, other, key=lambda tried: tried.size_bytes)
    return first, sentences


def _overlap(one: Tried, other: Tried) -> bool:
    """Return whether some round of `one` was as fast as some round of `other`."""
    if not one.latency_spread or not other.latency_spread:
        return False
    return other.latency_spread[0] <= one.latency_spread[1] and one.latency_spread[0] <= other.latency_spread[1]


def _name(tried: Tried) -> str:
    return " + ".join(tried.chain)
