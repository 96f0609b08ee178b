"""Encoder states of a job: another head answers from them, with the bytes of a full run, and never from others."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.core.resources import Resources
from pipelines.entries.finetune import Finetune
from pipelines.export import onnx_export
from pipelines.inference import encoder_states
from pipelines.scoring import audit, job, job_folders, job_record, manifest, ray_scorers, replay, states_files
from pipelines.scoring.node_scorer import NodeScorer, PartitionParts
from pipelines.scoring.scoring_work import Work
from pipelines.tracking import ledger, registry
from pipelines.training import finetune_entry
from tests.support import champion, kinds, stores, tiny
from tests.support.places import CODE

pytestmark = pytest.mark.slow
# version -> its entry: two heads on one frozen encoder, and a model whose encoder has trained too
ENTRIES = {
    1: {"strategy": "frozen", "seed": 1},
    2: {"strategy": "frozen", "seed": 2, "head": "linear"},
    3: {"strategy": "full", "seed": 1},
}


@pytest.fixture(scope="module")
def place(home: Path) -> Path:
    """A store with these versions of `tiny`, the working folder of all tests of the file."""
    stores.place_in(home)
    for number, entry in ENTRIES.items():
        assert registered(home, number, entry).version == number
    return home


def registered(place: Path, number: int, params: dict[str, Any]) -> registry.Version:
    """Fine-tune the same encoder on the same rows, as the stage does, export it, and register it."""
    encoder, data = place / "encoder", place / "encoded"
    if not encoder.is_dir():
        tiny.encoder(encoder)
        kinds.encoded("single", data, encoder)
        tiny.tokenizer(data / "tokenizer")
    entry = Finetune(data="d", encoder=str(encoder), epochs=2, batch_size=8, learning_rate=0.05, **params)
    tuned, out = place / f"model-{number}", place / f"onnx-{number}"
    finetune_entry.finetune("finetune", f"m{number}", entry, tuned, Resources(), data)
    out.mkdir()
    onnx_export.export(tuned, out, 18)
    tags = {"run": f"m{number}"}
    return registry.register("tiny", tuned, CODE, "single", champion.EXAMPLE, tags, out)


@pytest.fixture
def source(place: Path, tmp_path: Path) -> Path:
    """Two files of rows, one of them bad; version 1 is champion."""
    promote(1)
    write(tmp_path / "in/a.parquet", [*tiny.TEXTS[:4], None, "", "犬" * 40])
    write(tmp_path / "in/day=1/b.parquet", [f"{text}{number}" for number, text in enumerate(tiny.TEXTS)])
    return tmp_path / "in"


def promote(number: int) -> None:
    ledger.append("tiny", ledger.read("tiny"), "promote", number, "a test")


def write(path: Path, texts: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": pa.array(texts, pa.string()), "n": np.arange(len(texts))}), path)


def run(source: Path, name: str, workers: int = 1, **options: Any) -> job.Outcome:
    """A job into the folder `name` beside its source."""
    options = {"max_bad": "100%"} | options
    return job.run(source, source.with_name(name), "tiny", "champion", job.Options(**options), workers=workers)


def files_of(outcome: job.Outcome) -> dict[str, bytes]:
    """The answers, the states and the quarantine by name."""
    target = Path(outcome.target)
    names = [file for pattern in ("*.parquet", "*.arrow", "*.jsonl") for file in target.rglob(pattern)]
    return {file.relative_to(target).as_posix(): file.read_bytes() for file in names}


def origins(outcome: job.Outcome) -> tuple[int, int]:
    """The number of rows taken over, and that of rows answered from states."""
    measured = outcome.summary[manifest.MEASURED]
    return measured["taken_over"], measured["from_states"]


def assert_same(outcome: job.Outcome, full: job.Outcome) -> None:
    assert files_of(outcome) == files_of(full)
    assert outcome.summary["root"] == full.summary["root"]
    assert audit.audit(outcome.target).findings == []


def test_a_frozen_encoder_has_one_digest_and_a_trained_one_another(place: Path) -> None:
    one, two, three = (encoder_states.digest(place / f"onnx-{number}") for number in ENTRIES)
    assert one == two != three


def test_a_process_says_why_it_cannot_go_on(source: Path) -> None:
    """Its error, in what begins a process, would else look as if it had been killed."""
    target = Path(run(source, "first", states=True).target)
    record = json.loads((target / job_record.FILE).read_text(encoding="utf-8"))
    shutil.rmtree(target / "_manifest")
    (target / job_record.FILE).write_text(json.dumps(record | {"states": "0" * 64}), encoding="utf-8")
    for workers in (1, 2):
        with pytest.raises(InputError, match="its encoder states would be others here"):
            run(source, "first", states=True, workers=workers)


def test_a_node_of_a_cluster_sends_the_states_of_its_partition(source: Path) -> None:
    first = run(source, "first", states=True)
    record, model = job_record.read(Path(first.target)), registry.folder(registry.version("tiny", 1))
    assert record
    node, planned = NodeScorer(record, model, Path(first.target)), record.partitions
    assert node.begin() == ""
    sent = node.score(0, planned[0])
    node.stop()
    assert isinstance(sent, PartitionParts)
    with job_folders.opened(source) as rows, job_folders.opened(Path(first.target)) as answers:
        answers.aside.mkdir()
        result = ray_scorers._Actors(Work(record, model, rows, answers, planned), 0)._result(0, sent)
        assert result
        assert result.states_file.read_bytes() == (Path(first.target) / result.entry["states"]).read_bytes()


def test_another_head_answers_from_states_with_the_bytes_of_a_full_run(source: Path) -> None:
    first = run(source, "first", states=True)
    assert origins(first) == (0, 0)
    assert audit.audit(first.target).findings == []
    plain = run(source, "plain")
    answers = {name: content for name, content in files_of(first).items() if not name.endswith(".arrow")}
    assert answers == files_of(plain), "to keep states changes no answer"
    states = sorted(Path(first.target).rglob("*.arrow"))
    assert [file.name for file in states] == ["a.parquet.arrow", "b.parquet.arrow"]
    assert states_files.StatesReader(states[0]).next(99).num_rows == 6, "a bad row has no state"
    promote(2)
    write(source / "c.parquet", ["新しい", *tiny.TEXTS[:2]])
    second, full = run(source, "second", since=first.target), run(source, "full")
    assert_same(second, full)
    assert origins(second) == (0, 24)
    assert "25 rows in 3 partitions scored by tiny version 2" in second.sentence()
    assert ", 24 of them by the head alone from an earlier job's states, 1 in full" in second.sentence()
    again, with_states = run(source, "again", since=first.target, states=True), run(source, "with", states=True)
    assert_same(again, with_states)
    assert origins(again) == (0, 24)
    assert origins(run(source, "third", workers=2, since=again.target)) == (25, 0), "answers of the same model go first"
    promote(1)
    back = run(source, "back", workers=2, since=again.target)
    assert origins(back) == (0, 25)
    assert_same(back, run(source, "back-full"))
    assert origins(run(source, "same", states=True, since=plain.target)) == (0, 0), "each row of a job has a state"


def test_states_of_another_encoder_or_without_them_are_not_taken(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    first, plain = run(source, "first", states=True), run(source, "plain")
    promote(3)
    assert origins(run(source, "other", since=first.target)) == (0, 0)
    assert "first are of another encoder, processor or release" in capsys.readouterr().err
    promote(2)
    assert origins(run(source, "without", since=plain.target)) == (0, 0)
    assert "all rows are scored: the answers in" in capsys.readouterr().err
    assert origins(run(source, "keeping", since=plain.target, states=True)) == (0, 0)
    assert "plain has no encoder states" in capsys.readouterr().err


def test_states_that_were_touched_are_not_taken(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run(source, "first", states=True)
    touched = Path(shutil.copytree(first.target, source.with_name("touched")))
    file = next(touched.rglob("b.parquet.arrow"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert len(audit.audit(touched).findings) == 1
    promote(2)
    since = run(source, "since", since=str(touched))
    assert origins(since) == (0, 6)
    assert files_of(since) == files_of(run(source, "full"))
    forged = Path(shutil.copytree(touched, source.with_name("forged")))
    entry_file = next(path for path in (forged / "_manifest").iterdir() if "b.parquet" in path.read_text())
    entry = json.loads(entry_file.read_text())
    (forged / entry["states"]).write_bytes(content)
    entry["states_digest"] = hashlib.sha256(content).hexdigest()
    entry_file.write_text(json.dumps(entry))
    with pytest.raises(InputError, match=r"no answers can be taken over: .*root is"):
        run(source, "since-forged", since=str(forged))


def test_a_job_keeps_its_choice_and_its_machine(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(entry: manifest.Entry) -> None:
        raise KeyboardInterrupt

    target, options = source.with_name("out"), job.Options(max_bad="100%", states=True)
    with pytest.raises(KeyboardInterrupt):
        job.run(source, target, "tiny", "champion", options, stop)
    with monkeypatch.context() as patch:
        patch.setattr(encoder_states.cpu, "fingerprint", lambda: "another")
        with pytest.raises(InputError, match="its encoder states would be others here than where the job began"):
            run(source, "out")
    assert_same(run(source, "out"), run(source, "full", states=True))
    run(source, "plain")
    with pytest.raises(InputError, match="its job began without --states"):
        run(source, "plain", states=True)
    mended = source.with_name("mended.jsonl")
    mended.write_text(json.dumps({"source": "a.parquet", "row": 4, "values": {"text": "犬", "n": 4}}) + "\n")
    assert replay.run(mended, target, "tiny").scored == 1
    assert audit.audit(target).findings == []
    promote(2)
    since = run(source, "since", since=str(target))
    assert origins(since) == (0, 22), "a mended row has no state"
