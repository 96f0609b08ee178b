"""The table, the page and the sentences of a search, from results made by hand."""

import json
from pathlib import Path

import pytest

from pipelines.search import chain_results
from pipelines.search.chain_results import Searched
from pipelines.search.chains import Budget, Tried
from tests.support import json_answers

TEACHER = Tried((), 0.92, 0.0, 8_000_000, 1.0, 1.0, None, "torch")
INT8 = Tried(("int8",), 0.915, 0.5, 2_000_000, 0.25, 1.2, (1.1, 1.3), "onnx", loss_most=0.9)
HALF = Tried(("half",), 0.93, -1.0, 4_000_000, 0.5, 0.5, (0.5, 0.6), "torch", loss_most=1.4)
TINY = Tried(("tiny",), 0.7, 22.0, 1_000_000, 0.125, 1.5, (0.9, 1.6), "torch")  # in one round it was faster
BOTH = Tried(("half", "int8"), 0.9, 2.0, 1_500_000, 0.1875)
WIDER = Tried(("wider",), refused="params.yaml: compress.wider: <b> is wider than its teacher")
ALL = [INT8, HALF, TINY, WIDER, BOTH]


WON = "the winner; smaller, but slower"


def search_result(
    tried: list[Tried] = ALL, winner: Tried | None = INT8, target: str = "size", **changes: object
) -> Searched:
    known = {
        "entries": {"compress": {"int8": {"teacher": "big"}}, "encode": {}} if winner else {},
        "gate": ["the gate of titles accepts int8"],
        **changes,
    }
    budget = Budget(target="latency" if target == "latency" else "size")
    return Searched("big", "accuracy", "test", budget, TEACHER, tried, winner, **known)  # type: ignore[arg-type]


def test_a_line_for_each_that_was_tried_the_smallest_first() -> None:
    lines = [[cell.strip() for cell in line] for line in chain_results._lines(search_result())]
    assert lines == [
        ["tiny", "0.7000", "22.00", "-", "1.00", "12.5%", "1.50 (0.90-1.60)", "torch", "loses too much"],
        ["half + int8", "0.9000", "2.00", "-", "1.50", "18.8%", "-", "-", "loses too much"],
        [
            "int8",
            "0.9150",
            "0.50",
            "0.90",
            "2.00",
            "25.0%",
            "1.20 (1.10-1.30)",
            "onnx",
            WON,
        ],
        ["half", "0.9300", "-1.00", "1.40", "4.00", "50.0%", "0.50 (0.50-0.60)", "torch", "may lose too much"],
        ["big (the teacher)", "0.9200", "0.00", "-", "8.00", "100.0%", "1.00", "torch", ""],
        ["wider", *["-"] * 7, "not made"],
    ]
    assert f"wider was not made: {WIDER.refused}" in chain_results.plain(search_result()).splitlines()


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (search_result(), "int8 is the smallest chain that is at most 1 point below big; 5 were tried"),
        (
            search_result(winner=HALF, target="latency"),
            "half is the fastest chain that is at most 1 point below big; 5 were tried",
        ),
        (
            search_result([TINY, HALF], None),
            "1 chain scores at most 1 point below big, of 2 tried, but the rows do not show it 95% sure; take "
            "more rows, allow a larger loss, or use --trust-point",
        ),
        (
            search_result([TINY, WIDER], None),
            "none of the 2 chains tried is at most 1 point below big; tiny is nearest, 22.00 below",
        ),
        (search_result([WIDER], None), "none of the 1 chains tried is at most 1 point below big"),
        (
            search_result([INT8, TINY], None, unfit=[INT8.chain]),
            "the gate refuses every chain that is shown to be at most 1 point below big: 1 of 2 tried",
        ),
        (
            search_result(winner=None, unfit=[INT8.chain]),
            "the gate refuses every chain that is shown to be at most 1 point below big: 1 of 5 tried; 1 more scores "
            "so, but the rows do not show it 95% sure; take more rows, allow a larger loss, or use --trust-point",
        ),
    ],
)
def test_one_sentence_says_what_came_of_it(result: Searched, sentence: str) -> None:
    assert sentence in chain_results.plain(result).splitlines()
    assert f"<p>{sentence}</p>" in chain_results.html(result)


def test_refused_chains_are_named_without_a_winner(tmp_path: Path) -> None:
    gate = ["the gate of titles refuses int8 as champion", "refused: accuracy < 0.99"]
    result = search_result(winner=None, gate=gate, unfit=[INT8.chain])
    assert gate == [line for line in chain_results.plain(result).splitlines() if line in gate]
    assert "<li>refused: accuracy &lt; 0.99</li>" in chain_results.html(result)
    assert "the gate refuses it; smaller, but slower" in chain_results.html(result)
    chain_results.write(tmp_path, result)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["index.html", "table.md"]


def test_the_page_has_score_against_size_and_against_latency(tmp_path: Path) -> None:
    chain_results.write(tmp_path, search_result())
    page = (tmp_path / "index.html").read_text()
    size, latency = page.split("<svg")[1:]
    assert all(name in size for name in ("half + int8", "tiny", "big (the teacher)"))
    assert "half + int8" not in latency.partition("</svg>")[0]  # its latency was not asked for
    assert all(name in latency for name in ("int8", "half", "tiny", "big (the teacher)"))
    assert "&lt;b&gt; is wider" in page
    assert (tmp_path / "winner.yaml").read_text() == "compress:\n  int8:\n    teacher: big\n"


def test_the_answer_for_a_program_is_json_without_nan() -> None:
    text = json.dumps(chain_results.answer(search_result()), allow_nan=False)
    answer = json_answers.require_keys("compress", text)
    assert answer["winner"]["chain"] == ["int8"]
    assert [line["score"] for line in answer["tried"] if line["refused"]] == [None]
    assert json.loads(json.dumps(chain_results.answer(search_result(winner=None))))["winner"] is None
