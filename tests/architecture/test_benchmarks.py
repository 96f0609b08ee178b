"""What benchmarks leave behind names how it was made, and RESULTS.md says what the files say."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

FILES = sorted((ROOT / "benchmarks/results").glob("*.json"))


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("harness")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_result_names_its_command_versions_and_cpu(file: Path) -> None:
    result = json.loads(file.read_text(encoding="utf-8"))
    assert result["cpu"]
    assert result["cores"] > 0
    assert result["versions"]
    script = result["command"].split()[1]
    assert script == f"benchmarks/{file.stem.partition('-')[0]}.py"  # one script has several results: compress-livedoor
    assert (ROOT / script).is_file()


def test_results_md_is_written_from_the_files(harness: Any) -> None:
    results = importlib.import_module("results")
    assert len(FILES) > 5
    assert results.text() == (ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8"), (
        "run python benchmarks/results.py"
    )


def test_pages_on_scoring_say_what_its_benchmark_measured() -> None:
    facts = json.loads((ROOT / "benchmarks/results/score.json").read_text(encoding="utf-8"))["facts"]
    scale, operating = ((ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("scale", "operating"))
    rate = facts["rows_per_second_of_a_core"]
    assert re.findall(r"r is (\d+) for titles\s[^:]*: ([\d.]+) days", scale) == [
        (str(rate), f"{1e9 / rate / 86400:.1f}")
    ]
    assert re.findall(r"([\d,]+) bytes a row for an encoder", operating) == [f"{facts['bytes_of_a_state']:,.0f}"]


def test_this_cpu_is_named_with_what_makes_it_fast(harness: Any) -> None:
    model, _, flags = harness.cpu().partition("; ")
    assert model
    about = Path("/proc/cpuinfo")
    known = about.read_text(encoding="utf-8") if about.is_file() else flags
    assert all(flag in known for flag in flags.split())


def test_a_missing_result_file_reads_as_empty_and_a_broken_one_fails_in_one_sentence(
    harness: Any, tmp_path: Path
) -> None:
    file = tmp_path / "kept.json"
    assert harness.kept(None, "claims") == harness.kept(file, "claims") == []
    file.write_text("")
    assert harness.kept(file, "claims") == []
    file.write_text('{"claims": [{"name": "a"}]}')
    assert harness.kept(file, "claims") == [{"name": "a"}]
    for broken in ('{"claims": [', '{"runs": []}', "[]"):
        file.write_text(broken)
        with pytest.raises(SystemExit, match="not a file of results"):
            harness.kept(file, "claims")


def test_a_claim_without_an_aim_is_information(
    harness: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = [harness.ratio("a_vs_b", None, [2.0, 4.0], [1.0, 1.0]), harness.ratio("a_vs_c", 5, [2.0], [1.0])]
    harness.report(claims, ("numpy",), tmp_path / "r.json")
    assert [claim.ok for claim in claims] == [True, False]
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["a_vs_b", "3", "2-4"]
    assert lines[2].endswith("short of its aim")
    assert json.loads((tmp_path / "r.json").read_text())["cpu"] == harness.cpu()


def test_a_difference_below_nothing_reaches_no_aim(harness: Any) -> None:
    """What is tested is that the interval reaches 0."""
    seen, tested = harness.difference("ours_minus_theirs", -0.0122, (-0.0333, 0.01))
    assert (seen.aim, seen.measured, seen.spread) == (None, -0.0122, (-0.0333, 0.01))
    assert (tested.name, tested.aim) == ("upper_end_of_the_interval_of_ours_minus_theirs", 0)
    assert (tested.measured, tested.ok) == (0.01, True)
    assert not harness.difference("ours_minus_theirs", -0.02, (-0.03, -0.01))[1].ok


def test_a_table_leaves_out_a_model_whose_entry_was_edited_since(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = importlib.import_module("compress_runs")
    monkeypatch.chdir(tmp_path)
    entries = {"few": {"teacher": "big", "layers": 2}, "int8": {"teacher": "few", "bits": 8}}

    def model(name: str, digest: str) -> dict[str, str]:
        return {"path": f"artifacts/models/{name}", "md5": digest}

    def locked_stage(name: str, source: str, digest: str) -> dict[str, Any]:
        return {
            "params": {"params.yaml": {f"compress.{name}": entries[name]}},
            "deps": [model(entries[name]["teacher"], source)],
            "outs": [model(name, digest)],
        }

    locked = {
        "compress@few": locked_stage("few", "b", "f"),
        "compress@int8": locked_stage("int8", "f", "i"),
        "evaluate@int8": {"deps": [model("int8", "i")]},
    }
    assert not runs.complete("int8", entries, locked), "its metrics are not there"
    metrics = tmp_path / "artifacts/metrics/int8.json"
    metrics.parent.mkdir(parents=True)
    metrics.touch()
    assert runs.complete("int8", entries, locked)
    assert not runs.complete("few", entries, locked), "it was not evaluated"
    assert not runs.complete("int8", {**entries, "few": {"teacher": "big", "layers": 1}}, locked)
    assert not runs.complete("int8", entries, locked | {"compress@few": locked_stage("few", "b", "another")})
    assert not runs.complete("int8", entries, locked | {"evaluate@int8": {"deps": [model("int8", "older")]}})

    assert runs.folder("int8", entries, [1, 2], locked) == Path("artifacts/models/int8")
    assert runs.folder("few", entries, [1, 2], locked) is None
    other = Path("state/seeds/2")
    for file, text in (
        (other / "origins/few", runs.origin("few", entries)),
        (other / "artifacts/metrics/few.json", ""),
    ):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    assert runs.folder("few", entries, [1, 2], locked) == other / "artifacts/models/few"
    assert runs.folder("few", entries | {"few": {"teacher": "big", "layers": 1}}, [1, 2], locked) is None


def test_another_seed_reuses_finished_artefacts_and_makes_the_rest(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = importlib.import_module("compress_runs")
    monkeypatch.chdir(tmp_path)
    models, here = Path("artifacts/models"), Path("state/seeds/2")
    for name in ("big", "few", "half", ".half.partial"):
        (models / name).mkdir(parents=True)
    (tmp_path / "encoders").mkdir()
    runs.link(here, {"few"})
    assert {folder.name for folder in (here / models).iterdir()} == {"big", "half"}
    runs.forget(here, [models / "half", models / "few"], here / "origins/half", "now")  # another teacher's turn
    assert {folder.name for folder in (here / models).iterdir()} == {"big"}
    assert (models / "half").is_dir()
