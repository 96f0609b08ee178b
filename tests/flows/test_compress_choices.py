"""What a search for a smaller model decides: who is refused, who wins, by which runtime; models and gates are fakes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from flows import cli, compress
from pipelines.core import params, paths
from pipelines.core.errors import InputError, UsageError
from pipelines.entries.evaluate import Evaluate
from pipelines.evaluation import gates
from pipelines.evaluation.gates import Measured
from pipelines.evaluation.significance import OfRows
from pipelines.graph import executor
from pipelines.graph.stage_runner import StageRunner
from pipelines.measurement import interleaved
from pipelines.search import chain_entries, chain_folder, chain_search, chains
from pipelines.search.chain_results import Searched
from pipelines.search.chain_search import ChainSearch
from pipelines.search.chains import Budget, Chain, Tried

SCORED = Evaluate(task="headlines")
ENTRIES: dict[str, dict[str, Any]] = {
    "int8": {"teacher": "big", "data": "rows", "method": "dynamic_int8"},
    "half": {"teacher": "big", "data": "rows", "method": "drop_layers", "layers": 2},
}
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes params.yaml into an empty folder, which is the working one."""
    monkeypatch.chdir(tmp_path)

    def params(**sections: Any) -> None:
        Path("params.yaml").write_text(
            yaml.safe_dump({"compress": ENTRIES, "encode": {"rows": {}}, **sections}, sort_keys=False)
        )

    params()
    return params


def scoring(right: int, rows: int = 100, size_bytes: int = 1000, p95_ms: float = 1.0) -> Measured:
    """Of a model that says `right` of the rows rightly."""
    hits = np.arange(rows) < right
    return Measured("accuracy", rows, lambda chosen: float(hits[chosen].mean()), [*hits], p95_ms, size_bytes)


def search(
    monkeypatch: pytest.MonkeyPatch, models: Mapping[str, Measured | InputError], refused: Mapping[str, str] = {}
) -> ChainSearch:
    """A search on these models, by the names of their folders; the teacher is `big`."""

    def measure(folder: Path, entry: Evaluate, approved: bool) -> Measured:
        measured = models[folder.name]
        if isinstance(measured, InputError):
            raise measured
        return measured

    monkeypatch.setattr(chain_search.gate_measurements, "measure", measure)
    monkeypatch.setattr(chain_search.runs, "log", lambda *_: "")
    return ChainSearch.of("big", ENTRIES, SCORED, Budget(max_loss=1.0), refused, ExitStack())


def tried(name: str, share: float) -> Tried:
    return Tried((name,), 0.9, 0.5, int(1000 * share), share)


def test_a_loss_equal_to_the_budget_is_within_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.92 - 0.91 is a little more than 0.01, and the bootstrap's bound a little more than 0.03."""
    searching = search(monkeypatch, {"big": scoring(92), "int8": scoring(91)})
    monkeypatch.setattr(ChainSearch, "latency", lambda *_: ((0.5, 0.4, 0.6), "onnx"))
    attempt = searching.attempt(("int8",))
    assert (attempt.loss, attempt.latency_share, attempt.latency_spread, attempt.runtime) == (
        1.0,
        0.5,
        (0.4, 0.6),
        "onnx",
    )
    assert attempt.keeps(Budget(max_loss=1.0))
    assert 100 * gates.most_lost(scoring(91), scoring(92), chains.SURE) > attempt.loss_most == 3.0
    assert not attempt.shows(Budget(max_loss=2.9))
    assert attempt.shows(Budget(max_loss=3.0))


def test_a_student_that_gives_one_answer_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    student = replace(scoring(50), answers=["cat"] * 100)
    searching = search(monkeypatch, {"big": replace(scoring(92), answers=["cat", "dog"] * 50), "int8": student})
    assert "it has learned nothing" in searching.attempt(("int8",)).refused


def test_an_entry_that_cannot_be_made_or_opened_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"big": scoring(92), "int8": InputError("its weights are cut off")}
    searching = search(monkeypatch, models, {"half": "layers: 50 to drop of 4"})
    assert [searching.attempt((name,)).refused for name in ENTRIES] == [
        "its weights are cut off",
        "layers: 50 to drop of 4",
    ]


def test_a_search_does_not_blame_a_chain_for_its_teachers_death(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends, and goes on when it is started again."""
    searching = search(monkeypatch, {"big": scoring(92), "int8": scoring(92)})

    def latency(*_: object) -> None:
        raise interleaved.ReferenceEndedError("artifacts/models/big: its process ended while it was measured")

    monkeypatch.setattr(ChainSearch, "latency", latency)
    with pytest.raises(interleaved.ReferenceEndedError):
        searching.attempt(("int8",))


@pytest.mark.parametrize(
    ("failed", "unreached", "expected"),
    [
        ({"compress@half": "at least one must stay"}, ["report"], {"half": "at least one must stay"}),
        ({"encode@other": "no text"}, ["compress@half"], {"half": "encode@other failed"}),
        ({"compress@half": "no", "compress@int8": "no"}, [], None),  # there is nothing to search
        ({"prepare@headlines": "no rows"}, [], None),
        ({"finetune@big": "no memory"}, ["compress@half", "compress@int8"], None),
    ],
)
def test_one_bad_entry_does_not_end_the_search(
    failed: dict[str, str], unreached: list[str], expected: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(targets: list[str], keep_going: bool) -> list[str]:
        assert keep_going
        assert targets == ["compress@int8", "compress@half", "prepare@headlines"]
        raise executor.StageError("encode@other failed", failed, unreached)

    monkeypatch.setattr(executor, "run", run)
    if expected is None:
        with pytest.raises(InputError):
            chain_entries.reproduce("big", [*ENTRIES], SCORED)
    else:
        assert chain_entries.reproduce("big", [*ENTRIES], SCORED) == expected


def test_the_winner_is_the_cheapest_that_the_gate_accepts(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(promote={"titles": {"run": "big", "at_least": 0.9, "may_lose": 0.5}, "other": {"run": "it", "at_least": 1}})
    searching = search(monkeypatch, {"big": scoring(92), "int8": scoring(80), "half": scoring(95)})
    both = [tried("half", 0.5), tried("int8", 0.25)]
    winner, sentences, unfit = searching.judged(both)
    assert winner == both[0]
    assert unfit == [("int8",)]
    assert sentences[0] == "the gate of titles refuses int8 as champion in the teacher's place:"
    assert sentences[1] == "refused: accuracy 0.8000, at least 0.9000 is required"
    assert sentences[2] == "the gate of titles accepts half as champion in the teacher's place:"
    assert searching.judged(both[1:])[0] is None


@pytest.mark.parametrize(
    ("rules", "wins", "sentence"),
    [
        ({"at_least": 0.99}, False, "refused: accuracy 0.9500, at least 0.9900 is required"),
        ({"at_least": 0.99, "gate": "dry_run"}, True, "promote.titles.gate is dry_run, so it stops nothing"),
        ({"at_least": 0.99, "gate": "off"}, True, "the gate of titles is off"),
        (
            {"may_lose": 0.5, "approval": True},
            True,
            "promote.titles.approval: a person has to approve the version when it is registered",
        ),
        (None, True, "no promote entry has the run big, so no gate was checked"),
        (
            {"max_latency_ratio": 1.2},
            True,
            "promote.titles.max_latency_ratio was not checked: the latency was not measured",
        ),
        (
            {"max_changed": 0.1},
            True,
            "promote.titles.max_changed was not checked: only registered versions answer stored requests",
        ),
        (
            {"classes": {"sprot": 0.8}},
            True,
            "the gate of titles could not judge half: params.yaml: promote: no label 'sprot'; there are: none",
        ),
        (
            {"beats": "svm"},
            True,
            "the gate of titles could not judge half: params.yaml: promote.titles.beats: svm is not a baseline of "
            "headlines test; there are: none",
        ),
    ],
)
def test_the_verdict_of_each_gate_is_printed(
    rules: dict[str, Any] | None, wins: bool, sentence: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(promote={"titles": {"run": "big", **rules}} if rules else {})
    searching = search(monkeypatch, {"big": scoring(92), "half": scoring(95)})
    result = searching.result([tried("half", 0.5)], "torch")
    assert (result.winner is not None) == wins
    assert result.gate[-1] == sentence
    chain_search.chain_results.write(Path(), result)
    assert Path("index.html").is_file()


@pytest.mark.parametrize(("share", "wins"), [(1.1, True), (1.3, False)])
def test_a_gate_is_told_the_latency_that_the_search_measured(
    share: float, wins: bool, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(promote={"titles": {"run": "big", "max_latency_ratio": 1.2}})
    searching = search(monkeypatch, {"big": scoring(92), "half": scoring(95)})
    winner, sentences, _ = searching.judged([replace(tried("half", 0.5), latency_share=share)])
    assert (winner is not None) == wins
    word = "passed" if wins else "refused"
    assert (
        sentences[-1] == f"{word}: latency as a multiple of the champion's, measured in alternation, {share}, "
        "at most 1.2 is required"
    )


@pytest.mark.parametrize(
    ("beats", "right", "wins", "sentence"),
    [
        (True, 90, True, "passed: accuracy 0.9500, above the 0.9000 of the baseline svm is required"),
        (True, 96, False, "refused: accuracy 0.9500, above the 0.9600 of the baseline svm is required"),
        ("svm", 96, False, "refused: accuracy 0.9500, above the 0.9600 of the baseline svm is required"),
        (False, 96, True, "passed: accuracy 0.9500 against the champion's 0.9200"),
        (True, None, True, "promote.titles.beats was not checked: baseline svm: no such file"),
    ],
)
def test_a_gate_asks_for_the_baselines_that_promotion_asks_for(
    beats: str | bool, right: int | None, wins: bool, sentence: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are of the same task and split; `other` is not."""

    def score(name: str, entry: Evaluate) -> OfRows:
        assert (name, entry) == ("svm", SCORED)
        if right is None:
            raise InputError("baseline svm: no such file")
        return scoring(right).score

    baselines = {"svm": {"task": "headlines"}, "other": {"task": "titles"}}
    write(promote={"titles": {"run": "big", "beats": beats}}, baseline=baselines)
    searching = search(monkeypatch, {"big": scoring(92), "half": scoring(95)})
    monkeypatch.setattr(chain_search.gate_measurements, "baseline", score)
    winner, sentences, unfit = searching.judged([tried("half", 0.5)])
    assert (winner is not None, unfit) == (wins, [] if wins else [("half",)])
    assert [line for line in sentences if line.startswith(sentence)]
    if beats is False:
        assert not [line for line in sentences if "baseline" in line]


@pytest.mark.parametrize(
    ("runtime", "exports", "expected"),
    [
        ("auto", True, ((0.25, 0.2, 0.5), "onnx")),
        ("auto", False, ((1.25, 1.0, 2.0), "torch")),
        ("torch", True, ((1.25, 1.0, 2.0), "torch")),
        ("onnx", True, ((0.25, 0.2, 0.5), "onnx")),
    ],
)
def test_a_models_latency_is_that_of_its_faster_runtime(
    runtime: str, exports: bool, expected: object, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch rounds what it computes in floats, and is slower than the teacher here."""
    write(resources={"runtime": runtime, "threads": 3})
    searching = search(monkeypatch, {"big": scoring(92)})

    def exported(folder: object, run: str, model: Path) -> Path:
        if run == "int8" and not exports:
            raise InputError("ONNX and torch differ")
        return Path("onnx", run)

    @contextmanager
    def opened(teacher: Path, split: Path, threads: int, **_: Any) -> Iterator[Faster]:
        assert threads == 3
        assert teacher == (Path("artifacts/models/big") if runtime == "torch" else Path("onnx/big"))
        was_open.append(True)
        yield Faster()
        was_open.append(False)

    was_open: list[bool] = []
    monkeypatch.setattr(chain_folder.ChainFolder, "exported", exported)
    monkeypatch.setattr(chain_search.interleaved, "opened", opened)
    monkeypatch.setattr(
        chain_search.runtime_choice, "tags", lambda *_: {"runtime": "torch" if runtime == "torch" else "onnx"}
    )
    with searching.until_end:
        for _ in range(2):
            assert searching.latency(("int8",), Path("artifacts/models/int8")) == expected
        assert was_open == [True], "the teacher is opened once for all chains"
    assert was_open == [True, False]


class Faster:
    """An opened teacher."""

    def beside(self, folder: Path, rounds: int) -> chain_search.interleaved.Compared:
        faster = (4.0, 2.0, 5.0) if folder == Path("onnx/int8") else (0.8, 0.5, 1.0)
        return chain_search.interleaved.Compared(chain_search.interleaved.Cost(1, 1, 1, 1, 1, 1, 1), faster, (1, 1, 1))


def folder() -> chain_folder.ChainFolder:
    return chain_folder.ChainFolder.of("big", ENTRIES, SCORED, ExitStack())


def test_a_new_result_of_an_entry_invalidates_the_chains(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step of a chain is the entry's own result, and code and rows are those of the graph."""
    locked = {
        name: {"deps": [{"path": "pipelines/code.py", "md5": "1"}], "outs": [{"path": "artifacts", "md5": "2"}]}
        for name in ("compress@int8", "compress@half", "encode@rows", "finetune@other")
    }

    def place(of: dict[str, Any]) -> str:
        Path("dvc.lock").write_text(yaml.safe_dump({"stages": of}))
        return folder().place.name

    def changed(stage: str, kind: str) -> dict[str, Any]:
        return {**locked, stage: {**locked[stage], kind: [{"path": "artifacts", "md5": "3"}]}}

    before = place(locked)
    assert place(changed("finetune@other", "outs")) == before
    others = {place(changed(s, kind)) for s in ("compress@half", "encode@rows") for kind in ("deps", "outs")}
    assert len(others | {before}) == 5


def test_an_export_is_repeated_when_its_model_params_or_code_change(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model may be of an entry made from another, after which the search's folder is not named."""
    exports: list[str] = []

    def run(runner: StageRunner, stage: str, key: str) -> None:
        exports.append(f"{stage} {key}")
        (runner.place / paths.onnx(key)).mkdir(parents=True)

    monkeypatch.setattr(StageRunner, "run", run)
    write()
    for _ in range(2):
        folder().exported("int8", paths.model("int8"))
    assert exports == ["export int8"]
    write(export={"int8": {"tolerance": 0.5}})
    folder().exported("int8", paths.model("int8"))
    assert exports == ["export int8"] * 2
    monkeypatch.setattr(chain_folder, "_code", lambda stage: ["another"])
    for _ in range(2):
        folder().exported("int8", paths.model("int8"))
    assert exports == ["export int8"] * 3
    for weights in b"first", b"second":
        paths.model("int8").mkdir(parents=True, exist_ok=True)
        (paths.model("int8") / "model.safetensors").write_bytes(weights)
        for _ in range(2):
            folder().exported("int8", paths.model("int8"))
    assert exports == ["export int8"] * 5


def test_links_into_the_checkout_that_this_one_was_copied_from_are_made_anew(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StageRunner, "run", lambda runner, stage, key: (runner.place / paths.onnx(key)).mkdir())
    write()
    paths.model("int8").mkdir(parents=True, exist_ok=True)
    (Path("copied-from") / paths.model("int8")).mkdir(parents=True)
    link = folder().place / paths.model("int8")
    link.parent.mkdir(parents=True)
    link.symlink_to((Path("copied-from") / paths.model("int8")).resolve())
    (folder().place / paths.onnx("int8")).parent.mkdir(parents=True)
    folder().exported("int8", paths.model("int8"))
    assert link.resolve() == paths.model("int8").resolve()


SAME = {"teacher": "half", "data": "rows", "method": "dynamic_int8"}  # as the chain's last step


@pytest.mark.parametrize(
    ("sections", "run"),
    [
        ({}, "half--int8"),
        ({"compress": {**ENTRIES, "half--int8": SAME}}, "half--int8"),
        ({"compress": {**ENTRIES, "half--int8": {**SAME, "method": "static_int8"}}}, "half--int8-"),
        ({"finetune": {"half--int8": {}}}, "half--int8-"),
    ],
)
def test_a_chain_takes_no_name_of_another_entry(sections: dict[str, Any], run: str, write: Write) -> None:
    """Its recipe is whole, and the entry's model is exported, not the chain's."""
    write(**sections)
    name = folder().run_of(("half", "int8"))
    assert name.startswith(run)
    assert name == run or run.endswith("-")
    known = sections.get("compress", {})
    recipe = folder().new_entries(("half", "int8"), "onnx")
    assert recipe["compress"] == ({} if name in known else {name: SAME})
    assert recipe["export"] == {name: {}}


def test_chains_of_entries_with_the_joint_in_their_names_differ(write: Write) -> None:
    steps = ("a", "b--c", "a--b", "c")
    entries = {name: {**ENTRIES["int8"], "method": f"method_{name}"} for name in steps}
    chains_in = chain_folder.ChainFolder.of("big", entries, SCORED, ExitStack())
    assert len({chains_in.run_of(("a", "b--c")), chains_in.run_of(("a--b", "c"))}) == 2


def test_names_of_long_chains_are_shortened(write: Write) -> None:
    methods = {"a": "dynamic_int8", "b": "static_int8", "c": "prune_vocab"}
    entries = {letter * 60: {**ENTRIES["int8"], "method": method} for letter, method in methods.items()}
    write(encode={"rows": {}}, compress=entries)
    chains_in = chain_folder.ChainFolder.of("big", entries, SCORED, ExitStack())
    runs = [chains_in.run_of(("c" * 60, letter * 60)) for letter in "ab"]
    assert len({*runs}) == 2
    made = [*chains_in.entries_of(("c" * 60, "a" * 60))["encode"], *runs]
    assert len(made) == 3
    for run in made:
        params.require_name(run, "compress")


def test_a_model_of_the_graph_is_exported_beside_a_chain_of_its_name(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StageRunner, "run", lambda runner, stage, key: (runner.place / paths.onnx(key)).mkdir())
    write()
    chain, entry = folder().place / paths.model("half--int8"), paths.model("half--int8")
    for model in (chain, entry):
        model.mkdir(parents=True)
        (model / "model.safetensors").write_text(str(model))
    (folder().place / paths.onnx("half--int8")).parent.mkdir(parents=True)
    exported = [folder().exported("half--int8", model) for model in (chain, entry)]
    linked = [folder().place / paths.model(onnx.name) for onnx in exported]
    assert [model.resolve() for model in linked] == [chain.resolve(), entry.resolve()]


def test_a_chain_finds_the_students_of_its_entries(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may lie anywhere in the checkout."""
    monkeypatch.setattr(StageRunner, "run", lambda runner, stage, key: None)
    write()
    Path("my/encoder").mkdir(parents=True)
    entries = {**ENTRIES, "half": {**ENTRIES["half"], "method": "soft_targets", "student": "my/encoder"}}
    chains_in = chain_folder.ChainFolder.of("big", entries, SCORED, ExitStack())
    chains_in.made(("half", "int8"))
    assert (chains_in.place / "my/encoder").resolve() == Path("my/encoder").resolve()


def test_entries_that_compress_entries_are_tried_as_they_are(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain that params.yaml has may win, and there is nothing to add then. No further step is tried on it."""
    of_my_own = {"half-int8": {"teacher": "half", "data": "rows", "method": "dynamic_int8"}}
    last = {"least": {"teacher": "half-int8", "data": "rows", "method": "group_quant"}}
    other = {"others": {"teacher": "it", "data": "rows", "method": "dynamic_int8"}}
    scored = {"big": {"task": "headlines"}}
    write(compress={**last, **of_my_own, **ENTRIES, **other}, evaluate=scored, finetune={"big": {}})
    search(monkeypatch, {"big": scoring(92)})
    chains: list[Chain] = []

    def attempt(self: ChainSearch, chain: Chain) -> Tried:
        chains.append(chain)
        return tried(chain[0], 0.1 if chain == ("half-int8",) else 0.5)

    reproduced: list[str] = []
    monkeypatch.setattr(chain_entries, "say_power", lambda run, scored, budget: reproduced.append("power"))
    monkeypatch.setattr(chain_entries, "reproduce", lambda run, entries, scored: reproduced.extend(entries) or {})
    monkeypatch.setattr(ChainSearch, "attempt", attempt)
    monkeypatch.setattr(ChainSearch, "teacher_runtime", "torch")
    result = compress.compress.fn("big", Budget(steps=1))
    assert reproduced == ["power", "int8", "half", "half-int8", "least"]
    assert chains == [(name,) for name in reproduced[1:]]
    assert result.winner
    assert result.winner.chain == ("half-int8",)
    assert result.entries == {}
    assert not Path("artifacts/compression/big/winner.yaml").exists()


def test_a_search_that_finds_nothing_has_an_exit_status_of_its_own(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(finetune={"big": {}})
    refused = Tried(("half",), refused="at least one must stay")
    nothing = searched([refused, Tried(("int8",), 0.8, 12.0, 250, 0.25, 0.5, None, "onnx")], winner=None)
    monkeypatch.setattr(compress, "compress", lambda run, budget: nothing)
    done = CliRunner().invoke(cli.cli, ["compress", "big", "--max-loss", "1"])
    assert done.exit_code == 3
    assert "none of the 2 chains tried is at most 1 point below big" in done.output


def searched(tried: list[Tried], winner: Chain | None) -> Searched:
    teacher = Tried((), 0.92, 0.0, 1000, 1.0, 1.0, None, "torch")
    chosen = next((attempt for attempt in tried if attempt.chain == winner), None)
    return Searched("big", "accuracy", "test", Budget(), teacher, tried, chosen, {}, [])


def test_a_gate_that_is_stricter_than_the_budget_is_reported_first(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(promote={"titles": {"run": "big", "may_lose": 0.005}, "wide": {"run": "big", "may_lose": 0.01}})
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    chain_entries.say_of_stricter_gates("big", Budget(max_loss=1.0))
    assert capsys.readouterr().err.splitlines() == [
        "compress big: --max-loss allows 1 point, but the gate titles rejects losses above 0.5 points"
    ]


@pytest.mark.parametrize("max_loss", [-1.0, float("nan"), float("inf")])
def test_a_budget_is_a_number_of_points(max_loss: float) -> None:
    with pytest.raises(UsageError, match=r"^max_loss: .*; 0 or more points are expected"):
        Budget(max_loss)
