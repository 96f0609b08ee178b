"""The search for a chain: what follows what, what is tried, and which result is taken."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.search import chains
from pipelines.search.chains import Budget, Chain, Tried

METHODS = {
    "round": "q8bert",
    "half": "drop_layers",
    "thin": "prune_ffn",
    "short": "prune_vocab",
    "other-half": "drop_layers",
    "round-too": "dynamic_int8",
}


@pytest.mark.parametrize(
    ("chain", "name", "expected"),
    [
        (("short",), "half", True),
        (("half",), "short", False),  # the vocabulary goes first
        (("half",), "thin", True),
        (("thin",), "half", False),  # in the order of the file, so that two chains are not tried both ways
        (("half",), "other-half", False),  # a method once
        (("half",), "round", True),
        (("round",), "half", False),  # nothing takes rounded weights apart
        (("round",), "round-too", False),
        (("short", "half"), "round-too", True),
    ],
)
def test_rules_say_which_method_follows_a_chain(chain: Chain, name: str, expected: bool) -> None:
    assert chains.follows(chain, name, METHODS) == expected


def attempts(of: dict[str, tuple[float, float]], refused: Chain = ()) -> tuple[list[Chain], Callable[[Chain], Tried]]:
    """What was tried, and an attempt whose losses add up and whose shares multiply."""
    asked_chains: list[Chain] = []

    def attempt(chain: Chain) -> Tried:
        asked_chains.append(chain)
        if chain == refused:
            return Tried(chain, refused="it does not go")
        share = 1.0
        for name in chain:
            share *= of[name][1]
        loss = sum(of[name][0] for name in chain)
        return Tried(chain, 1 - loss / 100, loss, int(1000 * share), share, share**0.5)

    return asked_chains, attempt


OF = {"round": (0.2, 0.25), "half": (0.5, 0.5), "thin": (0.4, 0.8), "short": (0.1, 0.6), "other-half": (3, 0.4)}


def test_chains_grow_from_the_best_within_the_budget() -> None:
    methods = {name: METHODS[name] for name in OF}
    asked_chains, attempt = attempts(OF)
    tried = chains.search(methods, attempt, Budget(max_loss=1.0, steps=3, width=2))
    assert asked_chains[:5] == [(name,) for name in OF]
    # nothing can follow "round", the smallest of all, so it takes no place among the two that are gone on from
    assert asked_chains[5:10] == [
        *[("half", "round"), ("half", "thin")],
        *[("short", "round"), ("short", "half"), ("short", "thin")],
    ]
    assert asked_chains[10:] == [("short", "half", "round"), ("short", "half", "thin"), ("half", "thin", "round")]
    winner = chains.best(tried, Budget(max_loss=1.0))[0]
    assert winner.chain == ("short", "half", "round")
    assert [attempt_made.chain for attempt_made in tried] == asked_chains


def test_rounded_chains_take_no_place_of_extensible_ones() -> None:
    """As in params/compress-livedoor.yaml, where the smallest results are all of rounding."""
    methods = {"bits": "group_quant", "round": "q8bert", "half": "drop_layers", "thin": "prune_ffn"}
    asked_chains, attempt = attempts(
        {"bits": (0.3, 0.15), "round": (0.2, 0.25), "half": (0.5, 0.5), "thin": (0.4, 0.8)}
    )
    tried = chains.search(methods, attempt, Budget(max_loss=1.0, steps=2, width=2))
    assert asked_chains[4:] == [
        ("half", "bits"),
        ("half", "round"),
        ("half", "thin"),
        ("thin", "bits"),
        ("thin", "round"),
    ]
    assert chains.best(tried, Budget(max_loss=1.0))[0].chain == ("half", "bits")


def test_chains_are_made_of_the_cheapest_of_each_method_that_costs_less_than_the_teacher() -> None:
    of = {"half": (0.5, 0.5), "third": (0.6, 0.7), "most": (3, 0.2), "zeros": (0.1, 1.0), "round": (0.2, 0.25)}
    methods = {**dict.fromkeys(["half", "third", "most"], "drop_layers"), "zeros": "prune_magnitude", "round": "q8bert"}
    asked_chains, attempt = attempts(of)
    chains.search(methods, attempt, Budget(max_loss=1.0))
    assert asked_chains[:5] == [(name,) for name in of]
    assert asked_chains[5:] == [("half", "round")]  # "most" loses too much, and "zeros" takes no byte away


def test_without_a_chain_in_the_budget_nothing_is_extended() -> None:
    asked_chains, attempt = attempts(OF)
    tried = chains.search({"other-half": "drop_layers"}, attempt, Budget(max_loss=1.0))
    assert chains.best(tried, Budget(max_loss=1.0)) == []
    assert asked_chains == [("other-half",)]


def test_refused_chains_are_reported_and_never_extended() -> None:
    asked_chains, attempt = attempts(OF, refused=("round",))
    tried = chains.search({"round": "q8bert", "half": "drop_layers"}, attempt, Budget())
    assert asked_chains == [("round",), ("half",)]  # what cannot be made alone is not tried in a chain
    assert [attempt_made.refused for attempt_made in tried] == ["it does not go", ""]
    assert chains.best(tried, Budget())[0].chain == ("half",)


def test_the_target_decides_which_chain_is_best() -> None:
    small, fast = Tried(("a",), 0.9, 0.5, 10, 0.1, 0.9), Tried(("b",), 0.9, 0.5, 50, 0.5, 0.3)
    unmeasured = Tried(("c",), 0.9, 0.5, 5, 0.05)
    assert chains.best([fast, small], Budget(target="size")) == [small, fast]
    assert chains.best([small, unmeasured, fast], Budget(target="latency"))[0] == fast


@given(
    st.lists(st.sampled_from(sorted(METHODS)), min_size=1, max_size=6, unique=True),
    st.integers(1, 4),
    st.integers(1, 3),
    st.floats(0, 3),
)
def test_every_chain_is_valid_and_tried_once(names: list[str], steps: int, width: int, max_loss: float) -> None:
    methods = {name: METHODS[name] for name in names}
    asked_chains, attempt = attempts(OF | {"round-too": (0.3, 0.3)})
    tried = chains.search(methods, attempt, Budget(max_loss=max_loss, steps=steps, width=width))
    assert len({*asked_chains}) == len(asked_chains) == len(tried)
    for chain in asked_chains:
        assert len(chain) <= steps
        assert all(chains.follows(chain[:i], chain[i], methods) for i in range(1, len(chain)))
    for attempt_made in chains.best(tried, Budget(max_loss=max_loss)):
        assert attempt_made.loss <= max_loss


@pytest.mark.parametrize(("differing", "passed"), [(0.02, 0.09), (0.09, 0.27)])
def test_a_model_two_points_worse_may_seem_one_point_worse(differing: float, passed: float) -> None:
    """The shares of samples of 408 rows in docs/using.md."""
    shares = [(differing + 0.02) / 2, (differing - 0.02) / 2, 1 - differing]
    lost, gained, _ = np.random.default_rng(1).multinomial(408, shares, 20_000).T
    assert ((lost - gained) / 408 <= 0.01).mean() == pytest.approx(passed, abs=0.01)


def test_a_score_that_chance_may_have_made_is_not_shown() -> None:
    close = Tried(("a",), 0.9, 0.5, 10, 0.1, loss_most=2.3)
    assert close.keeps(Budget(max_loss=1))
    assert not close.shows(Budget(max_loss=1))
    assert close.shows(Budget(max_loss=2.5))
    assert close.shows(Budget(max_loss=1, trust_point=True))
    assert not Tried(("a",), 0.9, 1.5, 10, 0.1, loss_most=0.5).shows(Budget(max_loss=1, trust_point=True))


def test_how_many_rows_a_loss_takes_is_said_as_draws_have_it() -> None:
    """Of equal models that differ on 5 of 100 rows, half pass at the number of rows that the sentence has."""
    sentence = chains.power_of(408, Budget(max_loss=1))
    assert sentence.startswith(
        "408 rows can show a loss of at most 1 point, 95% sure, if the model answers at most 1.5%"
    )
    rows = int(re.search(r"5% takes ([\d,]+) rows", sentence)[1].replace(",", ""))  # type: ignore[index]
    draw = np.random.default_rng(3)
    differences = draw.choice([-1, 0, 1], (400, rows), p=[0.025, 0.95, 0.025])
    error = differences.std(axis=1) / rows**0.5
    passed = (differences.mean(axis=1) - chains.Z * error >= -0.01).mean()
    assert 0.4 < passed < 0.6
    assert "no number of rows is enough" in chains.power_of(408, Budget(max_loss=0))


@pytest.mark.parametrize(("rows", "can"), [(8, False), (50, False), (298, False), (299, True)])
def test_few_rows_cannot_show_a_small_loss(rows: int, can: bool) -> None:
    sentence = chains.power_of(rows, Budget(max_loss=1))
    assert sentence.startswith(f"{rows} rows {'can' if can else 'cannot'} show a loss of at most 1 point, 95% sure")
    assert ("299 rows can;" in sentence) == (not can)
    assert chains.power_of(2, Budget(max_loss=100)).startswith("2 rows can show")
