"""A scoring job: every row of every partition once, the order kept, a bad row beside its neighbours, one version."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.core import json_file, locks, paths
from pipelines.core.errors import InputError, UsageError
from pipelines.inference.predictor import Predictor
from pipelines.scoring import job, job_folders, job_record, manifest
from pipelines.scoring.quarantine import Limit
from pipelines.tracking import ledger, registry, removal
from tests.support import tiny
from tests.support.places import CODE

pytestmark = pytest.mark.slow
ALL = {"max_bad": "100%"}


def run(source: Path, target: Path, **options: Any) -> job.Outcome:
    return job.run(source, target, "tiny", "champion", job.Options(**options))


def write(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def codes(target: Path, name: str) -> list[tuple[int, str]]:
    """The bad rows of a partition: their numbers and codes."""
    lines = (target / "_quarantine" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(line["row"], line["code"]) for line in map(json.loads, lines)]


def test_a_folder_is_scored_with_its_layout_columns_and_order(
    source: Path, target: Path, version: registry.Version
) -> None:
    texts = [*tiny.TEXTS, "", "😀"] * 30
    write(source / "day=1/a.parquet", text=texts, n=list(range(len(texts))), deep=[{"a": [1, None]}] * len(texts))
    (source / "day=2").mkdir()
    (source / "day=2/b.csv").write_text('text,x\n犬,1\n\n"a\nb",\n', encoding="utf-8")
    (source / "c.jsonl").write_text('{"n": 1, "text": "犬"}\n\n{"text": "", "n": 2.5, "m": [1]}\n', encoding="utf-8")
    (source / "_SUCCESS").write_text("")
    (source / ".hidden.csv").write_text("x")
    (source / "_latest").symlink_to("day=1")
    (source / "empty.jsonl").write_text("")
    (source / "empty.csv").write_text("")
    outcome = run(source, target)
    assert outcome.summary | {"rows": 0} == outcome.summary | {"rows": 0, "quarantined": 0, "partitions": 5}
    predictor = Predictor.load(registry.folder(version))
    scored = pq.read_table(target / "day=1/a.parquet", partitioning=None)
    expected = predictor.predict(pa.table({"text": texts}))
    assert scored.select(["text", "n", "deep"]).equals(pq.read_table(source / "day=1/a.parquet", partitioning=None))
    assert scored.column("label").to_pylist() == expected.column("label").to_pylist()
    assert scored.column("score").to_pylist() == pytest.approx(expected.column("score").to_pylist(), abs=1e-6)
    assert scored.column("row_number").to_pylist() == list(range(len(texts)))
    digest = outcome.summary["model_digest"]
    stamps = scored.select(["model_name", "model_version", "model_digest", "status"]).to_pylist()
    assert {tuple(stamp.values()) for stamp in stamps} == {("tiny", version.version, digest, "scored")}
    csv = pq.read_table(target / "day=2/b.csv.parquet", partitioning=None)
    assert csv.select(["text", "x"]).to_pylist() == [{"text": "犬", "x": "1"}, {"text": "a\nb", "x": ""}]
    jsonl = pq.read_table(target / "c.jsonl.parquet")
    assert jsonl.select(["text", "n", "m"]).to_pylist() == [
        {"text": "犬", "n": 1.0, "m": None},
        {"text": "", "n": 2.5, "m": "[1]"},
    ]
    assert pq.read_table(target / "empty.jsonl.parquet").num_rows == 0
    assert pq.read_table(target / "empty.csv.parquet").num_rows == 0
    assert not list(target.glob("_partial/*"))


def test_a_finished_job_does_nothing_and_the_same_job_elsewhere_has_the_same_root(source: Path, target: Path) -> None:
    for name in ("a", "b"):
        write(source / f"{name}.parquet", text=tiny.TEXTS)
    first = run(source, target)
    times = {file: file.stat().st_mtime_ns for file in target.rglob("*.*")}
    again = run(source, target)
    assert (again.scored_now, again.summary) == (0, first.summary)
    assert "already finished, nothing to do: 32 rows in 2 partitions" in again.sentence()
    assert {file: file.stat().st_mtime_ns for file in target.rglob("*.*")} == times
    other = run(source, target.with_name("other"))
    assert other.summary["root"] == first.summary["root"]


def test_every_bad_row_has_its_code_and_its_neighbours_are_scored(source: Path, target: Path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 3, pa.array([b"ok", b"\xff\xfe", b"ab"], pa.binary()).buffers())
    write(source / "a.parquet", text=pa.array(["犬", None, "x" * 11, "映画"]), n=[1, 2, 3, 4])
    write(source / "b.parquet", text=["a", "b", "c"], other=broken)
    write(source / "c.parquet", text=pa.array(["犬", "x" * 11, "映画", "犬", None]).dictionary_encode())
    (source / "d.csv").write_bytes(b'text,x\nok,1\nbad,\xff\nonly\n"q"x,1\nok,3\n')
    lines = ['{"text": "a"}', '{"text": 5}', "[1]", "{broken", "", '{"text": "\\ud800"}', '{"k": 2}', '{"text": "b"}']
    (source / "e.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (source / "f.jsonl").write_bytes(
        b'{"text": "\xff"}\n{"text": "ok", "text": "twice"}\n{"text": "ok"}\n{"text": "a", "d": {"z": -1e400}}\n'
    )
    outcome = run(source, target, max_bad="100%", longest=10)
    assert codes(target, "a.parquet") == [(1, "null_value"), (2, "too_long")]
    assert codes(target, "b.parquet") == [(1, "not_utf8")]
    assert codes(target, "c.parquet") == [(1, "too_long"), (4, "null_value")]
    assert codes(target, "d.csv") == [(1, "not_utf8"), (2, "wrong_fields"), (3, "not_csv")]
    kinds = ["wrong_type", "not_json", "not_json", "not_utf8", "null_value"]
    assert codes(target, "e.jsonl") == list(enumerate(kinds, start=1))
    assert codes(target, "f.jsonl") == [(0, "not_utf8"), (1, "not_json"), (3, "not_json")]
    numbers = {
        name: pq.read_table(target / name).column("row_number").to_pylist()
        for name in ("a.parquet", "b.parquet", "c.parquet", "d.csv.parquet", "e.jsonl.parquet", "f.jsonl.parquet")
    }
    assert list(numbers.values()) == [[0, 3], [0, 2], [0, 2, 3], [0, 4], [0, 6], [2]]
    assert outcome.summary["quarantined"] == 16
    assert outcome.summary["rows"] == outcome.summary["scored"] + 16
    assert "16 bad rows in" in outcome.sentence()


def test_a_line_of_20_mb_is_one_bad_row(source: Path, target: Path) -> None:
    long = "x" * 20_000_000
    (source / "a.jsonl").write_text(f'{{"text": "犬"}}\n{{"text": "{long}"}}\n{{"text": "犬"}}\n', encoding="utf-8")
    (source / "b.csv").write_text(f"text\n犬\n{long}\n犬\n", encoding="utf-8")
    run(source, target, **ALL)
    for name in ("a.jsonl", "b.csv"):
        assert codes(target, name) == [(1, "line_too_long")]
        assert pq.read_table(target / f"{name}.parquet").column("row_number").to_pylist() == [0, 2]
    assert (target / "_quarantine/a.jsonl.jsonl").stat().st_size < 2000


ROWS = st.lists(st.one_of(st.none(), st.just(""), st.sampled_from(tiny.TEXTS), st.text(max_size=20)), max_size=40)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, form=st.sampled_from(["parquet", "jsonl"]))
def test_an_empty_or_broken_row_shifts_no_answer(source: Path, tmp_path: Path, rows: list[Any], form: str) -> None:
    """The answer for a text is the one that it gets alone."""
    with paths.fresh_folder(source):
        pass
    target = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
    if form == "parquet":
        write(source / "a.parquet", text=pa.array(rows, pa.string()))
    else:
        (source / "a.jsonl").write_text("".join("{\n" if t is None else json.dumps({"text": t}) + "\n" for t in rows))
    run(source, target, **ALL)
    name = "a.parquet" if form == "parquet" else "a.jsonl.parquet"
    scored = pq.read_table(target / name).to_pylist()
    good = [(number, text) for number, text in enumerate(rows) if text is not None]
    assert [(row["row_number"], row["text"]) for row in scored] == good
    for row in scored:
        assert row["label"] == alone(row["text"])


ANSWERS: dict[str, str] = {}


def alone(text: str) -> str:
    """The label of a text that is predicted by itself."""
    if text not in ANSWERS:
        predictor = Predictor.load(registry.folder(registry.get("tiny", "champion")))
        ANSWERS[text] = predictor.predict(pa.table({"text": [text]})).column("label")[0].as_py()
    return ANSWERS[text]


def test_too_many_bad_rows_stop_a_job_before_anything_is_published(source: Path, target: Path) -> None:
    write(source / "a.parquet", text=["犬"] * 198)
    write(source / "b.parquet", text=pa.array([None, None, None], pa.string()))
    sentence = r"3 of 201 rows are bad, and --max-bad is 1%: 3 of 3 in b.parquet; nothing is scored"
    with pytest.raises(InputError, match=sentence):
        run(source, target)
    assert not list(target.rglob("*.*"))
    with pytest.raises(InputError, match="--max-bad is 2"):
        run(source, target, max_bad="2")
    assert run(source, target, max_bad="3").summary["quarantined"] == 3


@pytest.mark.parametrize("text", ["", "-1", "101%", "x%", "1.5", "nan%"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--max-bad .*: a share such as 1% or a number of rows such as 100"):
        Limit(text)


def test_partitions_that_cannot_be_scored_are_all_named_before_anything_is_scored(source: Path, target: Path) -> None:
    write(source / "a.parquet", txt=["犬"])
    write(source / "b.parquet", text=[5])
    write(source / "c.parquet", text=["犬"], label=["x"])
    (source / "day=1").mkdir()
    (source / "d.parquet").write_bytes(b"no Parquet")
    (source / "e.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError) as raised:
        run(source, target)
    message = str(raised.value)
    for part in ("a.parquet: no column 'text'", "b.parquet: the column 'text' holds int64; text is expected"):
        assert part in message
    for part in ("c.parquet: it already has a column 'label'; give", "d.parquet: not a readable", "e.csv: no column"):
        assert part in message
    (source / "latest").symlink_to("day=1")
    with pytest.raises(InputError, match="in/latest: a link to a folder; name the folder itself"):
        run(source, target)
    (source / "latest").unlink()
    (source / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"in: notes.txt is not .parquet, .csv or .jsonl; convert, unpack, move or"):
        run(source, target)
    for part in (source / "notes.txt", source / "e.csv"):
        part.unlink()
    for folder in ("e.csv.parquet", "a.parquet.jsonl"):  # of its answers, and of its bad rows
        (source / folder).mkdir()
        write(source / folder / "part.parquet", text=["犬"])
    (source / "e.csv").write_text("text\n犬\n", encoding="utf-8")
    with pytest.raises(InputError) as raised:
        run(source, target)
    for name in ("a.parquet", "e.csv"):
        assert re.search(f"{name} would be scored into a file of the name of the folder {name}", str(raised.value))
    assert not list(target.rglob("*.*"))


def test_a_job_ends_on_the_version_that_it_began_with(
    source: Path, target: Path, version: registry.Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        write(source / f"{name}.parquet", text=tiny.TEXTS)

    class StoppedError(Exception):
        pass

    def stop(entry: manifest.Entry) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        job.run(source, target, "tiny", "champion", job.Options(), stop)
    assert len(manifest.files(target)) == 1
    folder = tiny.classifier(target.with_name("other-model"), seed=9)
    other = registry.register("tiny", folder, CODE, "single", {"text": "犬"}, {"md5": "9" * 32})
    ledger.append("tiny", ledger.read("tiny"), "promote", other.version, "a test")
    try:
        outcome = run(source, target)
        assert (outcome.summary["version"], outcome.scored_now) == (version.version, 2)
        elsewhere = run(source, target.with_name("elsewhere"))
        assert elsewhere.summary["version"] == other.version
        assert elsewhere.summary["root"] != outcome.summary["root"]
    finally:
        ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
    with pytest.raises(InputError, match="its job began with prefix '', not 'p_'; name another folder"):
        run(source, target, prefix="p_")
    removal.remove(other)
    with pytest.raises(InputError, match=rf"elsewhere: its job began on {other}, which was removed; score into anoth"):
        run(source, target.with_name("elsewhere"))
    ledger.append("tiny", ledger.read("tiny"), "rollback", version.version, "a test", removed=[other.version])
    with pytest.raises(InputError, match=r"which was removed \(bertline prune, \d{4}-\d\d-\d\d\); score"):
        run(source, target.with_name("elsewhere"))


def test_input_that_changed_is_named_and_nothing_of_it_is_published(source: Path, target: Path) -> None:
    for name in ("a", "b", "c", "d"):
        write(source / f"{name}.parquet", text=tiny.TEXTS)

    def change(entry: manifest.Entry) -> None:
        if entry["source"] == "a.parquet":
            write(source / "b.parquet", text=["other"])
            (source / "d.parquet").unlink()
            write(source / "new.parquet", text=["new"])

    sentence = r"2 partitions are not .*: b.parquet \(changed\); d.parquet \(changed\); nothing of them was published"
    with pytest.raises(InputError, match=sentence):
        job.run(source, target, "tiny", "champion", job.Options(), change)
    assert sorted(file.name for file in target.glob("*.parquet")) == ["a.parquet", "c.parquet"]
    assert not (target / manifest.SUMMARY).exists()
    sentence = r"3 partitions are not .*: b.parquet \(changed\); d.parquet \(missing\); new.parquet \(new\)"
    with pytest.raises(InputError, match=sentence):
        run(source, target)
    (source / "new.parquet").unlink()
    for name in ("b", "d"):
        write(source / f"{name}.parquet", text=tiny.TEXTS)
    assert run(source, target).scored_now == 2
    write(source / "a.parquet", text=["other"])
    with pytest.raises(InputError, match=r"1 partitions are not .*: a.parquet \(changed\).*4 of 4 partitions are"):
        run(source, target)


def test_the_second_of_two_jobs_is_refused(source: Path, target: Path) -> None:
    write(source / "a.parquet", text=tiny.TEXTS)
    with (
        locks.claim_file(target, job_folders.LOCK),
        pytest.raises(InputError, match="out: another process is writing it; wait until it ends, or stop it"),
    ):
        run(source, target)
    assert run(source, target).scored_now == 1


def test_a_folder_that_is_no_jobs_is_refused(source: Path, target: Path) -> None:
    write(source / "a.parquet", text=["犬"])
    with pytest.raises(InputError, match="lie in each other"):
        run(source, source / "out")
    target.mkdir()
    (target / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="exists, and is not the folder of a scoring job"):
        run(source, target)
    (target / "mine.txt").rename(target / job_record.FILE)
    with pytest.raises(InputError, match=r"_job.json: line 1: not JSON"):
        run(source, target)
    assert json_file.cached(target / manifest.SUMMARY) == {}
