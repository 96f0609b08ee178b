"""Chains of compression methods: the search for the smallest, or the fastest, that loses no more than a budget.

A chain is a list of compress entries, each made from the result of the one before. Every entry is tried on the teacher.
Chains are then made of the useful ones: of each method the cheapest that keeps the budget, if it costs less than the
teacher. Round by round they follow the cheapest results of the round before that one of them may still follow (a beam
search). So a round trains at most `width` times as many models as there are useful methods.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.core.errors import UsageError
from pipelines.reports import tables

FIRST = ("prune_vocab",)  # what follows learns to do without the pieces that went
LAST = ("dynamic_int8", "static_int8", "q8bert", "group_quant")  # nothing takes rounded weights apart
Chain = tuple[str, ...]  # names of compress entries
Target = Literal["size", "latency"]
SURE = 0.95
Z = 1.6449  # standard errors above which 5 of 100 differences of equal models lie


@dataclass(frozen=True)
class Budget:
    """The goal of a search, and its limits.

    Attributes:
        max_loss: the most points that a result may score below its teacher.
        target: the cost to make small: size or latency.
        steps: the longest chain.
        width: the number of results of a round that the next round extends, of those that can be extended.
        trust_point: whether the score alone decides how much is lost; else the rows must show it with confidence SURE.
    """

    max_loss: float = 1.0
    target: Target = "size"
    steps: int = 3
    width: int = 2
    trust_point: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.max_loss < float("inf"):
            raise UsageError(f"max_loss: {self.max_loss}; points from 0 on are expected, and 100 allow any loss")


@dataclass(frozen=True)
class Tried:
    """One chain and what came out.

    Attributes:
        loss: points below the teacher; negative above it.
        loss_most: what the loss is at most, as sure as SURE; a bootstrap over the rows, of both models on each.
        size: bytes of its weights; its part of the teacher's is `size_share`.
        latency_share: its median latency for a row alone as a part of the teacher's, measured in turn, each by its
            faster runtime; None for a chain that does not keep the budget.
        latency_spread: the least and the greatest of the rounds.
        runtime: the faster one, torch or onnx; "" if its latency is not measured.
        refused: why it could not be made; the numbers are NaN then.
    """

    chain: Chain
    score: float = float("nan")
    loss: float = float("nan")
    size_bytes: int = 0
    size_share: float = float("nan")
    latency_share: float | None = None
    latency_spread: tuple[float, float] | None = None
    runtime: str = ""
    refused: str = ""
    loss_most: float | None = None

    def keeps(self, budget: Budget) -> bool:
        """The score keeps the budget: a chain may go on from here."""
        return not self.refused and self.loss <= budget.max_loss

    def shows(self, budget: Budget) -> bool:
        """The rows show that the budget is kept: the chain may win."""
        most = self.loss if budget.trust_point or self.loss_most is None else self.loss_most
        return self.keeps(budget) and most <= budget.max_loss

    def cost(self, budget: Budget) -> float:
        """The share of the teacher's size or latency, as the budget's target says; infinite if it is not measured."""
        share = self.size_share if budget.target == "size" else self.latency_share
        return float("inf") if share is None else share


def search(methods: Mapping[str, str], attempt: Callable[[Chain], Tried], budget: Budget) -> list[Tried]:
    """Every chain that was tried, in order.

    Args:
        methods: name of a compress entry -> its method, in the order of params.yaml.
        attempt: makes a chain and measures it.
    """
    alone = [attempt((name,)) for name in methods]
    pool = _useful(alone, methods, budget)
    useful, tried = [result.chain[0] for result in pool], list(alone)
    for _ in range(budget.steps - 1):
        beam = [result for result in best(pool, budget) if _followers(result.chain, useful, methods)][: budget.width]
        pool = _longer(beam, useful, methods, attempt, budget, tried)
    return tried


def _useful(alone: Sequence[Tried], methods: Mapping[str, str], budget: Budget) -> list[Tried]:
    """The cheapest result of each method that keeps the budget and costs less than the teacher, ordered as `alone`."""
    cheapest: dict[str, Chain] = {}
    for each in best(alone, budget):
        cheapest.setdefault(methods[each.chain[0]], each.chain)
    return [each for each in alone if each.chain in cheapest.values() and each.cost(budget) < 1]


def _longer(
    beam: Sequence[Tried],
    useful: Sequence[str],
    methods: Mapping[str, str],
    attempt: Callable[[Chain], Tried],
    budget: Budget,
    tried: list[Tried],
) -> list[Tried]:
    """Try each chain of the beam with one step more; returns those that cost less than what they began with."""
    better = []
    for parent in beam:
        for name in _followers(parent.chain, useful, methods):
            longer = attempt((*parent.chain, name))
            tried.append(longer)
            if longer.cost(budget) < parent.cost(budget):
                better.append(longer)
    return better


def _followers(chain: Chain, useful: Sequence[str], methods: Mapping[str, str]) -> list[str]:
    return [name for name in useful if follows(chain, name, methods)]


def follows(chain: Chain, name: str, methods: Mapping[str, str]) -> bool:
    """Return whether an entry may come next: vocabularies go first, rounding last, others in the order of the file."""
    order = list(methods)

    def place(entry: str) -> tuple[int, int]:
        method = methods[entry]
        return (0 if method in FIRST else 2 if method in LAST else 1, order.index(entry))

    used = {methods[entry] for entry in chain}
    if methods[name] in used or (methods[name] in LAST and used & {*LAST}):
        return False
    return place(name) > place(chain[-1])


def best(tried: Sequence[Tried], budget: Budget) -> list[Tried]:
    """The results that keep the budget, the cheapest first; at equal cost the higher score comes first."""
    return sorted((each for each in tried if each.keeps(budget)), key=lambda each: (each.cost(budget), -each.score))


def power_of(rows: int, budget: Budget) -> str:
    """A sentence with the smallest difference that so many rows can show of a model as good as its teacher.

    Of models that answer a share d of N rows otherwise, each way as often, the difference has the standard error
    sqrt(d / N) (McNemar 1947).
    """
    part = budget.max_loss / 100
    most = tables.points(part)
    share = min(1.0, rows * (part / Z) ** 2)
    needed = f"for 5% it takes {0.05 * (Z / part) ** 2:,.0f} rows" if part else "no number of rows shows that"
    return (
        f"{rows:,} rows can show a loss of at most {most}, {SURE:.0%} sure, of a model that "
        f"answers up to {share:.1%} of them otherwise than its teacher; {needed}; --trust-point takes the score alone"
    )
