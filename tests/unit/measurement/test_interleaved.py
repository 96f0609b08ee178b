"""Costs are measured in processes of their own: whole numbers, one sentence for what fails, and no process is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from pipelines.core import schema, tables
from pipelines.core.errors import InputError
from pipelines.core.threads import VARIABLES
from pipelines.measurement import interleaved, model_process
from tests.support import exported, once, tiny

QUICK = {"rounds": 2, "starts": 1, "seconds": 0.2}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder, its export, and a split of 96 rows of several lengths."""
    ready = exported.classifier(tmp_path_factory)
    return once.made(tmp_path_factory, "in-turn", lambda folder: make(folder, ready))


def make(place: Path, ready: Path) -> None:
    once.copied(ready, place)
    texts = [text * (1 + i % 3) for i, text in enumerate(tiny.TEXTS * 6)]
    rows = {"id": list(map(str, range(len(texts)))), "text": texts, "label": [tiny.LABELS[0]] * len(texts)}
    write(place / "test.parquet", rows)


def write(path: Path, rows: dict[str, list[str]]) -> None:
    table = pa.table(rows).cast(schema.ROWS["single"])
    tables.write(path, table.to_batches(), table.schema)


def children() -> list[psutil.Process]:
    return [
        process for process in psutil.Process().children(recursive=True) if model_process.WORKER in process.cmdline()
    ]


def test_numbers_are_whole_and_of_the_model_alone(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An exported folder is opened where torch and transformers cannot be imported, from a parent that is large."""
    for name in ("torch", "transformers"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError('imported')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    ballast = b"x" * (1200 << 20)  # Linux counts it in the ru_maxrss of a child
    folders = {"first": place / "onnx", "again": place / "onnx"}
    compared = interleaved.compare(folders, place / "test.parquet", **QUICK)
    assert list(compared) == ["first", "again"]
    assert compared["first"].faster == compared["first"].throughput == (1, 1, 1)
    for cost in (compared["first"].cost, compared["again"].cost):
        assert 0 < cost.p50_ms <= cost.p95_ms <= cost.p99_ms
        assert cost.rows_per_second > 0
        assert cost.batch_rows in interleaved.BATCHES
        assert cost.cold_start_s > cost.p50_ms / 1000
        assert 10 < cost.peak_mb < len(ballast) / 2**20
    for median, least, greatest in (compared["again"].faster, compared["again"].throughput):
        assert least <= median <= greatest
        assert 0.01 < median < 100
    with pytest.raises(InputError, match=r"model: its process ended .* \(status 1: AssertionError: imported\)"):
        interleaved.compare({"torch": place / "model"}, place / "test.parquet", **QUICK)
    assert not children()


def test_the_reference_stays_and_each_other_model_is_beside_it_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[tuple[str, int, int]] = []
    plain = interleaved.Model.turn

    def turn(model: interleaved.Model, size: interleaved.Size) -> None:
        turns.append((str(model.folder), model.process.pid, len(children())))
        plain(model, size)

    monkeypatch.setattr(interleaved.Model, "turn", turn)
    onnx = place / "onnx"
    compared = interleaved.compare({"t": onnx, "a": onnx, "b": onnx}, place / "test.parquet", **QUICK)
    pids = [pid for _, pid, _ in turns]
    teacher, first, second = dict.fromkeys(pids)
    assert pids == [teacher, first, first, teacher, teacher, second, second, teacher]
    assert {alive for _, _, alive in turns} == {2}
    assert list(compared) == ["t", "a", "b"]
    assert not children()
    interleaved.compare({"alone": onnx}, place / "test.parquet", **QUICK | {"starts": 2})
    assert [alive for _, _, alive in turns[8:]] == [1, 1]


def test_onnx_runtime_has_the_threads_that_are_asked_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime has a pool of its own: a child with one thread for answers has one, whatever the machine."""
    counts: dict[tuple[str, int], int] = {}

    def hear(model: interleaved.Model, plain=interleaved.Model.hear) -> dict[str, object]:
        answer = plain(model)
        environment = psutil.Process(model.process.pid).environ()
        assert {environment[name] for name in VARIABLES} == {environment["OMP_NUM_THREADS"]}
        counts[model.folder.name, int(environment["OMP_NUM_THREADS"])] = psutil.Process(model.process.pid).num_threads()
        return answer

    monkeypatch.setattr(interleaved.Model, "hear", hear)
    for threads in (1, 3):
        interleaved.compare({"it": place / "onnx"}, place / "test.parquet", threads=threads, **QUICK | {"rounds": 1})
    assert counts["onnx", 3] >= counts["onnx", 1] + 2


@pytest.mark.parametrize("last", ["missing", "torn"])
def test_a_folder_that_cannot_be_opened_fails_in_one_sentence(last: str, place: Path, tmp_path: Path) -> None:
    folder = tmp_path / last
    if last == "torn":
        folder.mkdir()
        for file in (place / "onnx").iterdir():
            (folder / file.name).write_bytes(file.read_bytes()[: 999 if file.suffix == ".onnx" else None])
    with pytest.raises(InputError, match=str(folder)) as error:
        interleaved.compare({"good": place / "onnx", last: folder}, place / "test.parquet", **QUICK)
    assert "\n" not in str(error.value)
    assert "its process ended" not in str(error.value)
    assert not children()


def test_a_process_that_is_killed_fails_in_one_sentence(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(model: interleaved.Model, size: interleaved.Size) -> None:
        os.kill(model.process.pid, signal.SIGKILL)
        model.process.wait()
        model.ask(1, 0, 1)

    monkeypatch.setattr(interleaved.Model, "turn", killed)
    with pytest.raises(InputError, match=r"onnx: its process ended .*killed by SIGKILL; is there enough memory\?"):
        interleaved.compare({"it": place / "onnx"}, place / "test.parquet", **QUICK)
    assert not children()


def test_the_error_names_the_model_whose_process_died(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = interleaved.Model.turn
    with interleaved.opened(place / "onnx", place / "test.parquet", starts=1, seconds=0.1) as reference:

        def turn(model: interleaved.Model, size: interleaved.Size) -> None:
            if (model is reference.model) == it_dies:
                model.process.kill()
                model.process.wait()
            plain(model, size)

        monkeypatch.setattr(interleaved.Model, "turn", turn)
        it_dies = False
        with pytest.raises(InputError, match="killed by SIGKILL") as other:
            reference.beside(place / "onnx", 1)
        assert not isinstance(other.value, interleaved.ReferenceEndedError)
        it_dies = True
        with pytest.raises(interleaved.ReferenceEndedError, match="killed by SIGKILL"):
            reference.beside(place / "onnx", 1)
    assert not children()


def test_no_rows_and_rows_of_another_kind_are_refused(place: Path, tmp_path: Path) -> None:
    write(tmp_path / "none.parquet", {"id": [], "text": [], "label": []})
    with pytest.raises(InputError, match=r"none\.parquet: it has no rows"):
        interleaved.compare({"it": place / "onnx"}, tmp_path / "none.parquet", **QUICK)
    with pytest.raises(InputError, match=r"gone\.parquet: no such file"):
        interleaved.compare({"it": place / "onnx"}, tmp_path / "gone.parquet", **QUICK)
    (tmp_path / "pairs").mkdir()
    tiny.of_kind("pair").save(tmp_path / "pairs")
    with pytest.raises(InputError, match=r"pairs: it is for rows of kind pair, .*onnx for single"):
        interleaved.compare({"it": place / "onnx", "pairs": tmp_path / "pairs"}, place / "test.parquet", **QUICK)
    assert not children()


def test_a_process_ends_with_whoever_asks(place: Path) -> None:
    """One whose parent was killed has nothing more on its standard input."""
    call = [
        sys.executable,
        "-m",
        model_process.WORKER,
        str(place / "onnx"),
        str(place / "test.parquet"),
        "1",
    ]
    done = subprocess.run(call, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=True)
    assert done.stdout.startswith(b'{"peak_mb": ')
    assert done.stdout.count(b"\n") == 1
