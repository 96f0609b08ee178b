"""Chains of compression methods: the search for the smallest or fastest model that loses no more than a budget.

A chain is a list of compress entries; each starts from the result of the one before. The search first tries every entry
alone on the teacher. For each method it keeps the cheapest entry within the budget, if that costs less than the
teacher. Chains consist of these useful entries. Each round extends the cheapest results of the round before that can be
extended (a beam search), so it trains at most `width` times as many models as there are useful methods.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.core.errors import UsageError
from pipelines.evaluation import agreement
from pipelines.reports import run_tables

FIRST = ("prune_vocab",)  # later methods train with the smaller vocabulary
LAST = ("dynamic_int8", "static_int8", "q8bert", "group_quant")  # no method changes rounded weights
Chain = tuple[str, ...]  # names of compress entries
Target = Literal["size", "latency"]
SURE = 0.95
Z = 1.6449  # one-sided 95% quantile of the normal distribution, in standard errors


@dataclass(frozen=True)
class Budget:
    """The goal of a search, and its limits.

    Attributes:
        max_loss: the most points that a result may score below its teacher.
        target: the cost to minimize: size or latency.
        steps: the maximum length of a chain.
        width: the number of results that the next round extends, of those that can be extended.
        trust_point: True compares only the measured loss with `max_loss`; False also compares `Tried.loss_most`.
    """

    max_loss: float = 1.0
    target: Target = "size"
    steps: int = 3
    width: int = 2
    trust_point: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.max_loss < float("inf"):
            raise UsageError(f"max_loss: {self.max_loss}; 0 or more points are expected, and 100 allows any loss")


@dataclass(frozen=True)
class Tried:
    """One chain and its result.

    Attributes:
        loss: points below the teacher; negative above it.
        loss_most: upper bound of the loss with confidence SURE, from a paired bootstrap over the rows.
        size_bytes: bytes of its weights; `size_share` is their share of the teacher's bytes.
        latency_share: its median latency for a single row divided by the teacher's, both measured in turn, each with
            its faster runtime; None for a chain that does not keep the budget.
        latency_spread: the minimum and maximum over the rounds.
        runtime: the faster one, torch or onnx; "" if the latency was not measured.
        refused: the reason why it could not be made; the numbers are NaN then.
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
        """Return whether the score keeps the budget, so that the chain may be extended."""
        return not self.refused and self.loss <= budget.max_loss

    def shows(self, budget: Budget) -> bool:
        """Return whether the rows show that the budget is kept, so that the chain may win."""
        most = self.loss if budget.trust_point or self.loss_most is None else self.loss_most
        return self.keeps(budget) and most <= budget.max_loss

    def cost(self, budget: Budget) -> float:
        """The share of the teacher's size or latency, depending on the budget's target; infinite if not measured."""
        share = self.size_share if budget.target == "size" else self.latency_share
        return float("inf") if share is None else share


def search(methods: Mapping[str, str], attempt: Callable[[Chain], Tried], budget: Budget) -> list[Tried]:
    """Try chains within the budget; return all of them, in order.

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
    for attempt in best(alone, budget):
        cheapest.setdefault(methods[attempt.chain[0]], attempt.chain)
    return [attempt for attempt in alone if attempt.chain in cheapest.values() and attempt.cost(budget) < 1]


def _longer(
    beam: Sequence[Tried],
    useful: Sequence[str],
    methods: Mapping[str, str],
    attempt: Callable[[Chain], Tried],
    budget: Budget,
    tried: list[Tried],
) -> list[Tried]:
    """Extend each chain of the beam by one step; return the results that cost less than the chain they extend.

    All results are added to `tried`.
    """
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
    """Return whether the entry `name` may come after `chain`.

    Vocabulary pruning comes first and rounding last; all others follow the order of params.yaml. A chain uses each
    method once, and only one method that rounds.
    """
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
    return sorted(
        (attempt for attempt in tried if attempt.keeps(budget)),
        key=lambda attempt: (attempt.cost(budget), -attempt.score),
    )


def power_of(rows: int, budget: Budget) -> str:
    """A sentence with the share of rows that a model as good as its teacher may answer differently from the teacher.

    Up to this share, the rows can show that such a model keeps the budget. If two models answer a share d of N rows
    differently, equally often in each direction, the difference of their scores has the standard error sqrt(d / N)
    (McNemar 1947).
    """
    part = budget.max_loss / 100
    most = run_tables.points(part)
    if part and agreement.upper_bound(0, rows, SURE) > part:
        least = agreement.least_rows(1 - part, SURE)
        return (
            f"{rows:,} rows cannot show a loss of at most {most}, {SURE:.0%} sure, even if no answer differs from the "
            f"teacher's; {least:,} rows can; a model that gives the teacher's answers keeps the budget all the same; "
            "--trust-point uses the score alone"
        )
    share = min(1.0, rows * (part / Z) ** 2)
    needed = f"5% takes {0.05 * (Z / part) ** 2:,.0f} rows" if part else "no number of rows is enough"
    return (
        f"{rows:,} rows can show a loss of at most {most}, {SURE:.0%} sure, if the model "
        f"answers at most {share:.1%} of them unlike its teacher; {needed}; --trust-point uses the score alone"
    )
