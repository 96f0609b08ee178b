"""The audit of a scoring job finds every kind of damage and names it; a replay scores mended rows once."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core import json_file, provenance
from pipelines.core.errors import InputError
from pipelines.scoring import audit, job, job_folders, manifest, replay
from tests.support import tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(version: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished job: `in`, and `out` with three partitions and three bad rows."""
    assert version
    place = tmp_path_factory.mktemp("finished")
    (place / "in/day=1").mkdir(parents=True)
    for name in ("a", "day=1/b"):
        pq.write_table(pa.table({"text": tiny.TEXTS, "n": range(16)}), place / f"in/{name}.parquet")
    lines = ['{"text": "犬", "n": 1}', '{"n": 2}', "{broken", '{"text": 5}', '{"text": "犬", "n": 2.5}']
    (place / "in/c.jsonl").write_text("\n".join(lines), encoding="utf-8")
    job.run(place / "in", place / "out", "tiny", "champion", job.Options(max_bad="3"))
    return place


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of its answers; the input is where it was."""
    return Path(shutil.copytree(finished / "out", tmp_path / "out"))


def edit(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json_file.mapping(file) | changes), encoding="utf-8")


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def forge(out: Path) -> None:
    """Double a row, and write its digest and the root as if it had been so."""
    rows = pq.read_table(out / "a.parquet")
    pq.write_table(pa.concat_tables([rows.slice(0, 15), rows.slice(0, 1)]), out / "a.parquet")
    edit(out / "_manifest/000001.json", output_digest=provenance.sha256(out / "a.parquet"))
    entries = manifest.read(out)
    edit(out / "_manifest.json", root=manifest.root(entries.values()))


def claim(out: Path, rows: int) -> None:
    """Let the record of the job claim a number of rows for its first partition."""
    partitions = json_file.mapping(out / "_job.json")["partitions"]
    edit(out / "_job.json", partitions=[partitions[0] | {"rows": rows}, *partitions[1:]])


DAMAGE: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "an answer is lost": (lambda out: (out / "a.parquet").unlink(), ["a.parquet: missing"]),
    "an answer is changed": (lambda out: flip(out / "day=1/b.parquet"), ["b.parquet: its bytes are not those that"]),
    "an answer is doubled": (
        lambda out: shutil.copyfile(out / "a.parquet", out / "more.parquet"),
        ["more.parquet: the manifest does not name it"],
    ),
    "a bad row is changed": (lambda out: flip(out / "_quarantine/c.jsonl.jsonl"), ["jsonl: its bytes are not those"]),
    "an entry is lost": (
        lambda out: (out / "_manifest/000001.json").unlink(),
        ["a.parquet: no entry of the manifest", "partitions is 3; the entries give 2", "root is", "does not name it"],
    ),
    "an entry is doubled": (
        lambda out: shutil.copyfile(out / "_manifest/000001.json", out / "_manifest/000009.json"),
        ["a.parquet: 2 entries of the manifest", "a.parquet: 16 rows are doubled, the first is row 0"],
    ),
    "an entry is damaged": (
        lambda out: (out / "_manifest/000001.json").write_text("{"),
        ["000001.json: line 1: not JSON", "a.parquet: no entry"],
    ),
    "another version is recorded": (
        lambda out: edit(out / "_manifest/000001.json", version=9),
        ["a.parquet: version 9 is recorded; the job began with 1", "root is"],
    ),
    "a row is doubled, and its digest and root are forged": (
        forge,
        ["a.parquet: 1 rows are lost, the first is row 15", "a.parquet: 1 rows are doubled, the first is row 0"],
    ),
    "the record claims more rows than any memory holds": (
        lambda out: claim(out, 10**17),
        ["a.parquet: its rows or its digest are others", "a.parquet: 99,999,999,999,999,984 rows are lost, the first"],
    ),
    "the record claims fewer rows": (lambda out: claim(out, 3), ["a.parquet: a row number is not of the 3 rows of"]),
    "the summary is lost": (lambda out: (out / "_manifest.json").unlink(), ["missing; the job is not finished"]),
    "the root is changed": (lambda out: edit(out / "_manifest.json", root="0"), ["root is '0'; the entries give"]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(copied: Path, damage: str) -> None:
    assert audit.audit(copied).findings == []
    work, sentences = DAMAGE[damage]
    work(copied)
    findings = audit.audit(copied).findings
    assert findings
    for sentence in sentences:
        assert any(sentence in line for line in findings), findings


def test_a_whole_job_is_proved_also_without_its_input(finished: Path, copied: Path) -> None:
    result = audit.audit(copied)
    assert (result.ok, result.inputs) == (True, 3)
    text = audit.plain(result.answer())
    assert text.startswith("37 rows in 3 partitions: 34 scored by tiny version 1, 3 in quarantine, each once; root ")
    assert text.endswith("3 of 3 inputs are still there, unchanged")
    file = finished / "in/a.parquet"
    content = file.read_bytes()
    try:
        flip(file)
        assert audit.audit(copied).findings == [f"{file}: its bytes are others than when it was scored"]
        file.unlink()
        result = audit.audit(copied)
        assert (result.ok, result.inputs) == (True, 2)
    finally:
        file.write_bytes(content)
    with pytest.raises(InputError, match=r"no _job.json; it is not the folder of a scoring job"):
        audit.audit(finished / "in")


def test_mended_rows_are_scored_once_and_the_rest_stays_bad(copied: Path, tmp_path: Path) -> None:
    mended = tmp_path / "mended.jsonl"
    lines = [json.loads(line) for line in (copied / "_quarantine/c.jsonl.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == [1, 2, 3]
    lines[0]["values"] = {"text": "映画の公開日が決定、監督が語る", "n": 7}
    lines[1]["values"] = {"text": None, "n": None}
    mended.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    outcome = replay.run(mended, copied, "tiny")
    assert outcome.sentence() == (
        f"1 mended rows scored into {copied}; 2 rows are left in quarantine; "
        "still bad: row 2 of c.jsonl: the column 'text' has no value"
    )
    (row,) = pq.read_table(copied / "c.jsonl.replayed-1.parquet").to_pylist()
    assert (row["row_number"], row["n"], row["status"]) == (1, 7.0, "replayed")
    twin = next(r for r in pq.read_table(copied / "a.parquet").to_pylist() if r["text"] == row["text"])
    assert row["label"] == twin["label"]
    result = audit.audit(copied)
    assert (result.findings, result.summary["scored"], result.summary["quarantined"]) == ([], 35, 2)
    assert replay.run(mended, copied, "tiny").scored == 0, "a row is replayed once"
    assert not (copied / job_folders.PARTIAL).exists()
    lines[1]["values"] = {"text": "犬", "n": None}
    mended.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert replay.run(mended, copied, "tiny").scored == 1
    assert audit.audit(copied).summary["scored"] == 36
    shutil.copyfile(copied / "_manifest/replay-000001.json", copied / "_manifest/replay-000009.json")
    assert any("1 rows are doubled, the first is row 1" in line for line in audit.audit(copied).findings)


def test_a_replay_that_is_killed_before_its_entry_is_done_again_and_no_row_stands_twice(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mended = tmp_path / "mended.jsonl"
    lines = [{"source": "c.jsonl", "row": row, "values": {"text": "犬", "n": row}} for row in (1, 2)]
    mended.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(manifest, "write", killed)
        replay.run(mended, copied, "tiny")
    assert audit.audit(copied).findings == [f"{copied}/c.jsonl.replayed-1.parquet: the manifest does not name it"]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(manifest, "summary", killed)  # after its entry, before the summary of the job
        replay.run(mended, copied, "tiny")
    assert replay.run(mended, copied, "tiny").scored == 0
    assert [file.name for file in copied.glob("*.replayed-*")] == ["c.jsonl.replayed-1.parquet"]
    result = audit.audit(copied)
    assert (result.findings, result.summary["scored"], result.summary["quarantined"]) == ([], 36, 1)


def test_mended_rows_as_editors_save_them(copied: Path, tmp_path: Path) -> None:
    mended = tmp_path / "mended.jsonl"
    line = json.dumps({"source": "c.jsonl", "row": 1, "values": {"text": "犬", "n": 7}}, ensure_ascii=False)
    for encoding in ("utf-16", "cp932"):
        mended.write_bytes(line.encode(encoding))
        with pytest.raises(InputError, match="line 1: it is not UTF-8; save the file as UTF-8"):
            replay.run(mended, copied, "tiny")
    mended.write_text(json.dumps({"source": "c.jsonl", "row": 1, "values": {"text": "\ud83d"}}))
    assert re.search("still bad: row 1 of c.jsonl: .* is not UTF-8", replay.run(mended, copied, "tiny").sentence())
    mended.write_text(json.dumps({"source": "c.jsonl", "row": 1, "values": {"text": "犬", "n": 10**400}}))
    with pytest.raises(InputError, match="mended values of the column 'n'"):
        replay.run(mended, copied, "tiny")
    mended.write_text(f"\ufeff{line}\n\n")
    assert replay.run(mended, copied, "tiny").scored == 1


def test_a_mended_row_that_is_none_is_refused(copied: Path, tmp_path: Path) -> None:
    mended = tmp_path / "mended.jsonl"
    for line, sentence in (
        ('{"source": "c.jsonl", "row": 0, "values": {"text": "a"}}', "row 0 of c.jsonl: not in the quarantine of"),
        ('{"source": "x.jsonl", "row": 0, "values": {"text": "a"}}', "row 0 of x.jsonl: not in the quarantine of"),
        ('{"source": "c.jsonl", "row": 1}', "no line has `values`"),
        ('{"source": "c.jsonl", "row": 1, "values": {"text": "a", "m": 1}}', "the partition has no column 'm'"),
        ('{"source": "c.jsonl", "row": 1, "values": {"text": "a", "n": "x"}}', "mended values of the column 'n'"),
        ('{"source": "c.jsonl", "row": 2, "values": {"text": "a"}}', "no column 'n', and its row there cannot be read"),
        ("{", "line 1: an object with source and row is expected"),
    ):
        mended.write_text(line + "\n", encoding="utf-8")
        with pytest.raises(InputError, match=sentence):
            replay.run(mended, copied, "tiny")
    with pytest.raises(InputError, match="not the folder of a scoring job"):
        replay.run(mended, tmp_path / "typo/out", "tiny")
    assert not (tmp_path / "typo").exists()
    assert audit.audit(copied).findings == []


def test_mended_values_that_do_not_fit_their_columns_are_refused_before_any_is_published(
    source: Path, target: Path, tmp_path: Path
) -> None:
    (source / "a.jsonl").write_text('{"text": "犬", "price": 1}\n{"price": 2}\n', encoding="utf-8")
    required = pa.field("id", pa.int64(), nullable=False)
    schema = pa.schema([required, ("text", pa.string()), ("day", pa.date32()), ("parts", pa.list_(pa.int64()))])
    rows = [{"id": 1, "text": "犬"}, {"id": 2, "text": None}]
    pq.write_table(pa.Table.from_pylist(rows, schema), source / "b.parquet")
    job.run(source, target, "tiny", "champion", job.Options(max_bad="2"))
    mended = tmp_path / "mended.jsonl"

    def replayed(price: object, other: dict[str, object]) -> replay.Replay:
        lines = [
            {"source": "a.jsonl", "row": 1, "values": {"text": "映画", "price": price}},
            {"source": "b.parquet", "row": 1, "values": {"text": "映画"} | other},
        ]
        mended.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return replay.run(mended, target, "tiny")

    for price, other, sentence in (
        (6.99, {"id": 2}, "a.jsonl: mended values of the column 'price': 6.99 does not fit int64"),
        (7, {"id": None}, "row 1 of b.parquet: the column 'id' must have a value"),
        (7, {"id": 2, "day": 6.5}, "b.parquet: mended values of the column 'day': 6.5 does not fit date32"),
        (7, {"id": 2, "parts": [1, 2.5]}, "b.parquet: mended values of the column 'parts': 2.5 does not fit int64"),
    ):
        with pytest.raises(InputError, match=sentence):
            replayed(price, other)
        assert not list(target.glob("*.replayed-*")), sentence
    assert replayed(7.0, {"id": 2, "parts": [1, 2.0]}).scored == 2
    assert pq.read_table(target / "a.jsonl.replayed-1.parquet").column("price").to_pylist() == [7]
    assert audit.audit(target).findings == []
