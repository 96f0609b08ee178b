"""Tonight's folder since yesterday's: the same bytes as a full run, and never an answer that was touched."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.core.errors import InputError
from pipelines.inference import row_digests
from pipelines.scoring import audit, earlier_answers, job, manifest
from pipelines.tracking import registry
from tests.support import tiny

pytestmark = pytest.mark.slow


def run(source: Path, target: Path, **options: Any) -> job.Outcome:
    return job.run(source, target, "tiny", "champion", job.Options(max_bad="100%", **options))


def write(path: Path, texts: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": pa.array(texts, pa.string()), "n": np.arange(len(texts))}), path)


def bytes_of(target: Path) -> dict[str, bytes]:
    """The answers and the quarantine by name."""
    names = [file for pattern in ("*.parquet", "_quarantine/**/*.jsonl") for file in target.rglob(pattern)]
    return {file.relative_to(target).as_posix(): file.read_bytes() for file in names}


def assert_same(since: job.Outcome, full: job.Outcome) -> None:
    """An incremental job and a full one have the same files, and the same root of the manifest."""
    assert bytes_of(Path(since.target)) == bytes_of(Path(full.target))
    assert since.summary["root"] == full.summary["root"]
    assert audit.audit(Path(since.target)).findings == []


TEXT = st.one_of(st.none(), st.just(""), st.sampled_from(tiny.TEXTS), st.text(max_size=5))
ROWS = st.lists(TEXT, max_size=25)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(earlier=st.lists(ROWS, min_size=1, max_size=3), tonight=st.lists(ROWS, min_size=1, max_size=3), data=st.data())
def test_any_mix_of_rows_has_the_bytes_of_a_full_run(
    version: registry.Version, tmp_path: Path, earlier: list[list[Any]], tonight: list[list[Any]], data: st.DataObject
) -> None:
    """New, changed, repeated, moved and removed rows, in other files than yesterday."""
    assert version
    place = tmp_path / str(len(list(tmp_path.iterdir())))
    old = [text for texts in earlier for text in texts]
    for number, texts in enumerate(earlier):
        write(place / f"earlier/{number}.parquet", texts)
    for number, texts in enumerate(tonight):
        moved = data.draw(st.lists(st.sampled_from(old), max_size=20)) if old else []
        write(place / f"tonight/{number}.parquet", data.draw(st.permutations([*texts, *moved])))
    run(place / "earlier", place / "first")
    since = run(place / "tonight", place / "since", since=str(place / "first"))
    assert_same(since, run(place / "tonight", place / "full"))
    good = {text for text in old if text is not None}
    rows = pa.concat_tables(pq.read_table(file) for file in sorted((place / "tonight").iterdir()))
    expected = sum(text in good for text in rows.column("text").to_pylist())
    assert since.summary[manifest.MEASURED]["taken_over"] == expected


def test_other_formats_types_and_names_take_the_same_answers(source: Path, target: Path) -> None:
    write(source / "a.parquet", [*tiny.TEXTS, None])
    run(source, target, prefix="old_")
    tonight = source.with_name("tonight")
    tonight.mkdir()
    lines = [json.dumps({"text": text}) + "\n" for text in reversed(tiny.TEXTS)]
    (tonight / "b.jsonl").write_text("".join([*lines, '{"text": "new"}\n']), encoding="utf-8")
    texts = pa.array([*tiny.TEXTS, "other"]).dictionary_encode()
    pq.write_table(pa.table({"text": texts, "old_label": [1] * 17}), tonight / "c.parquet")
    since = run(tonight, source.with_name("since"), since=str(target))
    assert_same(since, run(tonight, source.with_name("full")))
    assert since.summary[manifest.MEASURED]["taken_over"] == 32
    assert ", 32 of them taken over from an earlier job" in since.sentence()
    third = run(tonight, source.with_name("third"), since=since.target)
    assert third.summary[manifest.MEASURED]["taken_over"] == 34, "answers that were taken over are taken over again"


def touched(file: Path) -> None:
    """Other labels, in a file that reads well."""
    rows = pq.read_table(file)
    labels = pa.array(rows.column("label").to_pylist()[::-1])
    pq.write_table(rows.set_column(rows.schema.get_field_index("label"), "label", labels), file)


def test_a_touched_answer_is_not_taken_over(
    source: Path, target: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    write(source / "a.parquet", tiny.TEXTS[:2])
    write(source / "b.parquet", tiny.TEXTS[2:4])
    full = run(source, target)
    damaged = Path(shutil.copytree(target, source.with_name("damaged")))
    touched(damaged / "a.parquet")
    since = run(source, source.with_name("since"), since=str(damaged))
    assert bytes_of(Path(since.target)) == bytes_of(target)
    assert since.summary["root"] == full.summary["root"]
    assert since.summary[manifest.MEASURED]["taken_over"] == 2
    assert "a.parquet: its bytes are not those that were written; none of its answers" in capsys.readouterr().err


def test_a_job_that_is_no_finished_one_is_refused(source: Path, target: Path) -> None:
    write(source / "a.parquet", tiny.TEXTS)
    with pytest.raises(InputError, match="nowhere: not the folder of a scoring job; no answers can be taken over"):
        run(source, target, since=str(source.with_name("nowhere")))
    run(source, target)
    for name, damage, sentence in (
        ("unfinished", lambda place: (place / manifest.SUMMARY).unlink(), "the job is not finished"),
        ("forged", lambda place: (place / manifest.FOLDER / "000001.json").unlink(), "the entries give"),
    ):
        place = Path(shutil.copytree(target, source.with_name(name)))
        damage(place)
        with pytest.raises(InputError, match=f"no answers can be taken over: .*{sentence}.*see `bertline verify"):
            run(source, source.with_name(f"since-{name}"), since=str(place))
    assert not list(source.parent.glob("since-*/*.parquet"))


def test_another_model_scores_all_and_a_resumed_job_keeps_its_earlier_one(
    source: Path, target: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    for name in "ab":
        write(source / f"{name}.parquet", tiny.TEXTS)
    run(source, target)
    record = json.loads((target / "_job.json").read_text())

    def stop(entry: manifest.Entry) -> None:
        raise KeyboardInterrupt

    since, options = source.with_name("since"), job.Options(since=str(target))
    with pytest.raises(KeyboardInterrupt):
        job.run(source, since, "tiny", "champion", options, stop)
    with pytest.raises(InputError, match="its job began with since"):
        run(source, since, since=str(source))
    assert run(source, since).summary[manifest.MEASURED]["taken_over"] == 32, "the record names the earlier job"
    other = source.with_name("other")
    with pytest.raises(KeyboardInterrupt):
        job.run(source, other, "tiny", "champion", options, stop)
    for file in (target / "_manifest").iterdir():
        file.write_text(json.dumps(json.loads(file.read_text()) | {"model_digest": "0", "key": "0"}))
    (target / "_job.json").write_text(json.dumps(record | {"model_digest": "0"}))
    assert run(source, other).summary[manifest.MEASURED]["taken_over"] == 16, "the first partition"
    assert "all rows are scored: " in capsys.readouterr().err


def test_answers_of_several_batches_and_buckets_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_answers, "BATCH_ROWS", 64)
    monkeypatch.setattr(earlier_answers, "BUCKET_ROWS", 100)
    texts = [f"text {number % 900}" for number in range(1000)]
    digests = row_digests.digests(pa.table({"text": texts}))
    assert len({row.tobytes() for row in digests}) == 900
    place = tmp_path / "answers"
    place.mkdir()
    with earlier_answers._Collector(place, len(texts)) as collector:
        for start in range(0, 1000, 37):
            rows = slice(start, start + 37)
            collector.add(digests[rows], pa.table({"label": texts[rows]}))
    assert collector.bits == 4
    answers = earlier_answers.EarlierAnswers(place)
    order = np.random.default_rng(1).permutation(1000)
    places = answers.places(digests[order])
    assert answers.answers(places).column("label").to_pylist() == [texts[i] for i in order]
    assert (answers.places(row_digests.digests(pa.table({"text": ["new", ""]}))) == -1).all()


def test_rows_have_the_same_digest_only_if_their_inputs_are_the_same() -> None:
    rows = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("a\0", "b"), ("a", "\0b"), ("ab", "c")]
    digests = row_digests.digests(pa.table({"text": [a for a, _ in rows], "text_pair": [b for _, b in rows]}))
    assert len({row.tobytes() for row in digests}) == 6
    lists = [["a", "b"], ["ab"], ["a", "b", ""], [], [""]]
    digests = row_digests.digests(pa.table({"choices": pa.array(lists, pa.list_(pa.string()))}))
    assert len({row.tobytes() for row in digests}) == 5
