"""The fastest of several results; those that three rounds cannot order are measured again, in turn."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.measurement import latency_order
from pipelines.search.chains import Tried


def fastest(
    ranked: Sequence[Tried], opens: Callable[[Tried], Path], split_file: Path, threads: int
) -> tuple[Tried, list[str]]:
    """The fastest result, and a sentence for each pair that was measured again.

    If the new measurement decides nothing, the smaller result wins.

    Args:
        ranked: the results by their median latency, the fastest first.
        opens: returns the folder of a result that its runtime loads.
        split_file: the rows to predict while latency is measured.
    """
    first, sentences = ranked[0], []
    for other in ranked[1:]:
        if not _overlap(first, other):
            continue
        order = latency_order.compare(opens(first), opens(other), split_file, threads)
        sentence = (
            f"{_name(other)} is {order.ratio:.2f} times as fast as {_name(first)} in {order.rounds} alternating rounds"
        )
        if order.decided:
            sentences.append(sentence)
            first = other if order.ratio > 1 else first
        else:
            sentences.append(f"{sentence}, too close to decide: the smaller one is taken")
            first = min(first, other, key=lambda tried: tried.size_bytes)
    return first, sentences


def _overlap(first: Tried, second: Tried) -> bool:
    """Return whether the latency ranges of `first` and `second` over their rounds overlap."""
    if not first.latency_spread or not second.latency_spread:
        return False
    return second.latency_spread[0] <= first.latency_spread[1] and first.latency_spread[0] <= second.latency_spread[1]


def _name(tried: Tried) -> str:
    return " + ".join(tried.chain)
