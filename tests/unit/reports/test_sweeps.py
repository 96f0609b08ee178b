"""Sweeps among compressed runs, from records made by hand."""

from typing import Any

from pipelines.reports import page, sweeps
from pipelines.reports.sweeps import Sweep
from tests.support.records import record, variant

TEACHER = record("big", 0.76, model={"size_bytes": 8_000_000, "flops_per_token": 4_000_000})
PRUNED = {"seed": 1, "epochs": 2.0, "rewind": "none", "rounds": 1}


def pruned(sparsity: float, accuracy: float, **more: Any) -> dict[str, Any]:
    name = f"pruned-{sparsity}-{len(more)}"
    return variant(name, accuracy, ["prune_magnitude"], params=PRUNED | {"sparsity": sparsity} | more)


ZEROS = [pruned(share, score) for share, score in ((0.9, 0.5), (0.3, 0.75), (0.6, 0.7))]
TICKETS = [pruned(share, score, rewind="encoder", rounds=3) for share, score in ((0.3, 0.75), (0.6, 0.74), (0.9, 0.6))]


def test_a_method_with_three_values_of_one_param_is_a_sweep() -> None:
    (sweep,) = sweeps.found([TEACHER, *ZEROS, *TICKETS])
    assert sweep == Sweep(
        "prune_magnitude",
        "sparsity",
        {
            "rewind none, rounds 1": [(0.3, 0.75), (0.6, 0.7), (0.9, 0.5)],
            "rewind encoder, rounds 3": [(0.3, 0.75), (0.6, 0.74), (0.9, 0.6)],
        },
    )
    (alone,) = sweeps.found(ZEROS)
    assert alone.lines.keys() == {""}


def test_runs_that_differ_in_other_params_are_no_sweep() -> None:
    other = pruned(0.9, 0.5, epochs=3.0)
    assert sweeps.found([*ZEROS[1:], other]) == []
    assert sweeps.found(ZEROS[:2]) == []
    deeper = variant("deeper", 0.4, ["drop_layers", "prune_magnitude"], params=PRUNED | {"sparsity": 0.1})
    assert sweeps.found([*ZEROS[:2], deeper]) == [], "of another teacher"
    seeds = [variant(f"s{i}", 0.5, ["q8bert"], params={"seed": i}) for i in range(3)]
    assert sweeps.found(seeds) == []


def test_the_page_has_the_runs_by_score_and_the_sweeps() -> None:
    html = page.html([TEACHER, *ZEROS, *TICKETS], {})
    assert html.count("<figcaption>prune_magnitude by sparsity; dashed: the teacher") == 1
    assert html.count("<figcaption>By score, with 95% intervals") == 1
    ranking = html[: html.index("By score, with 95%")].rpartition("<svg")[2]
    order = [ranking.index(f">{record['run']}<") for record in (TICKETS[0], TICKETS[1], ZEROS[2], ZEROS[0])]
    assert order == sorted(order)
    assert "rewind encoder, rounds 3" in html
    assert page.html([TEACHER, *ZEROS, *TICKETS], {}) == html
