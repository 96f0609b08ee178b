"""Receipts of a job's answers: the same however it ran, and every field of a row that is edited later is named."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.core.errors import InputError
from pipelines.inference import receipt_keys, receipts
from pipelines.inference.receipt_keys import ReceiptKeys
from pipelines.scoring import audit, job, manifest, receipt_check, replay, verification
from pipelines.scoring.job_folders import Folder
from pipelines.tracking import ledger, registry
from tests.support import tiny
from tests.support.places import CODE

pytestmark = pytest.mark.slow
COMMIT = "0123456789abcdef"
TEXTS = [*tiny.TEXTS, "", "😀", "a b c", "犬" * 40]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one key."""
    file = tmp_path_factory.mktemp("keys") / "receipts.key"
    receipt_keys.make(file, "first")
    return file


def run(source: Path, target: Path, keys: Path, on_partition: Any = None, workers: int = 1, **more: Any) -> job.Outcome:
    options = job.Options(**{"max_bad": "100%", "receipts": str(keys), "commit": COMMIT} | more)
    return job.run(source, target, "tiny", "champion", options, on_partition, workers)


def write(path: Path, texts: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": pa.array(texts, pa.string()), "n": range(len(texts))}), path)


def receipts_of(target: Path) -> dict[str, dict[str, Any]]:
    """The receipt of each text; a text has the same one wherever it stands."""
    by_text: dict[str, dict[str, Any]] = {}
    for file in sorted(target.rglob("*.parquet")):
        for row in pq.ParquetFile(file).read().to_pylist():
            assert by_text.setdefault(row["text"], row["receipt"]) == row["receipt"]
    return by_text


def files_of(target: Path) -> dict[str, bytes]:
    return {file.relative_to(target).as_posix(): file.read_bytes() for file in target.rglob("*.parquet")}


def test_partitions_order_workers_resumption_and_increments_change_no_receipt(
    source: Path, target: Path, keys: Path
) -> None:
    write(source / "a.parquet", TEXTS)
    write(source / "b.parquet", [None, *TEXTS[::-1]])
    one = run(source, target, keys)
    wanted = receipts_of(target)
    assert len(wanted) == 8
    assert {receipt["commit"] for receipt in wanted.values()} == {COMMIT}
    two = run(source, target.with_name("two"), keys, workers=2)

    def stop(entry: manifest.Entry) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(source, target.with_name("resumed"), keys, stop)
    with pytest.raises(InputError, match=f"its receipts name the commit {COMMIT}, and the code is of other now; check"):
        run(source, target.with_name("resumed"), keys, commit="other")
    rotated = receipt_keys.make(keys)
    assert ReceiptKeys.read(keys).current.id == rotated.id
    resumed = run(source, target.with_name("resumed"), keys, receipts="")
    keys.write_text(keys.read_text().splitlines()[0])  # the last line has no end, and the first key signs again
    since = run(source, target.with_name("since"), keys, since=str(target))
    assert since.summary[manifest.MEASURED]["taken_over"] == 40
    for other in (two, resumed, since):
        assert files_of(Path(other.target)) == files_of(target)
        assert other.summary["root"] == one.summary["root"]
    unsigned = run(source, target.with_name("unsigned"), keys, receipts="")
    assert "receipt" not in pq.read_schema(Path(unsigned.target) / "a.parquet").names
    for earlier, commit in ((unsigned, COMMIT), (one, "other")):
        place = target.with_name(f"since-{Path(earlier.target).name}")
        scored = run(source, place, keys, since=earlier.target, commit=commit)
        assert scored.summary[manifest.MEASURED]["taken_over"] == 0, "its code is another, or not known"
    third = source.with_name("third")
    write(third / "day=1/c.parquet", ["new", *TEXTS[3:]])
    run(third, target.with_name("apart"), keys, prefix="")
    apart = receipts_of(target.with_name("apart"))
    assert {text: receipt for text, receipt in apart.items() if text != "new"}.items() <= wanted.items()
    with pytest.raises(InputError, match="its job began with receipts"):
        run(source, Path(unsigned.target), keys)


@pytest.fixture(scope="module")
def answers(version: object, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished job with receipts."""
    assert version
    place = tmp_path_factory.mktemp("answers")
    write(place / "in/a.parquet", TEXTS)
    write(place / "in/b.parquet", [*TEXTS[:3], None])
    run(place / "in", place / "out", keys)
    return place / "out"


def findings(file: Path, keys: Path) -> list[str]:
    return receipt_check.check(Folder(file), ReceiptKeys.read(keys)).findings


def edited(value: Any) -> st.SearchStrategy[Any]:
    """Another value of the same type, sometimes one that is near."""
    if isinstance(value, str):
        near = st.sampled_from([value + " ", value[1:], value.upper(), value + "\0", "0" + value[1:]])
        return st.one_of(near, st.text(max_size=5)).filter(lambda other: other != value)
    if isinstance(value, int):
        return st.integers(-(2**31), 2**31 - 1).filter(lambda other: other != value)
    return st.floats(0, 1, width=32).filter(lambda other: other != value)


NAMED = {
    "text": "its text was touched (text)",
    "label": "its answer was touched",
    "score": "its answer was touched",
    "model_name": "its model was touched",
    "model_version": "its model was touched",
    "model_digest": "its model was touched",
    **dict.fromkeys(receipts.FIELDS, "its receipt "),
}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_edit_of_a_receipted_field_is_named(answers: Path, keys: Path, tmp_path: Path, data: st.DataObject) -> None:
    rows = pq.read_table(answers / "a.parquet")
    values, number = rows.to_pylist(), data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(sorted(NAMED)))
    row = values[number]["receipt"] if name in receipts.FIELDS else values[number]
    erased = data.draw(st.integers(0, 5)) == 0
    row[name] = None if erased else data.draw(edited(row[name]))
    file = tmp_path / "edited.parquet"
    pq.write_table(pa.Table.from_pylist(values, rows.schema), file)
    (finding,) = findings(file, keys)
    assert finding.startswith(f"{file}: row {number}: {NAMED[name]}")


def swap(rows: list[dict[str, Any]], name: str) -> None:
    rows[0][name], rows[1][name] = rows[1][name], rows[0][name]


EDITS: dict[str, tuple[Callable[[list[dict[str, Any]]], Any], list[str]]] = {
    "nothing": (lambda rows: None, []),
    "the rows change places": (lambda rows: rows.reverse(), []),
    "two texts are exchanged": (lambda rows: swap(rows, "text"), ["row 0: its text was", "row 1: its text was"]),
    "two answers are exchanged": (
        lambda rows: [swap(rows, "label"), swap(rows, "score")],
        ["row 0: its answer was", "row 1: its answer was"],
    ),
    "two receipts are exchanged": (
        lambda rows: swap(rows, "receipt"),
        ["row 0: its text was", "row 0: its answer was", "row 1: its text was", "row 1: its answer was"],
    ),
    "a receipt is erased": (lambda rows: rows[2].update(receipt=None), ["row 2: its receipt is missing or damaged"]),
}


@pytest.mark.parametrize("edit", EDITS)
def test_exchanged_fields_are_named_and_other_columns_are_free(
    answers: Path, keys: Path, tmp_path: Path, edit: str
) -> None:
    rows = pq.read_table(answers / "a.parquet")
    values = [row | {"n": -1} for row in rows.to_pylist()]
    work, wanted = EDITS[edit]
    work(values)
    pq.write_table(pa.Table.from_pylist(values, rows.schema), tmp_path / "edited.parquet")
    lines = findings(tmp_path / "edited.parquet", keys)
    assert len(lines) == len(wanted)
    for line, sentence in zip(lines, wanted, strict=True):
        assert sentence in line


def test_columns_of_other_types_are_read_and_damaged_ones_are_named(answers: Path, keys: Path, tmp_path: Path) -> None:
    rows, file = pq.read_table(answers / "a.parquet"), tmp_path / "edited.parquet"

    def stored(name: str, column: Any) -> list[str]:
        pq.write_table(rows.set_column(rows.schema.get_field_index(name), name, column), file)
        return findings(file, keys)

    for column in (
        rows.column("text").combine_chunks().dictionary_encode(),
        rows.column("text").cast(pa.large_string()),
        rows.column("text").cast(pa.string_view()),
    ):
        assert stored("text", column) == []
    assert stored("score", rows.column("score").cast(pa.float64())) == []
    broken = pa.array([b"\xff", *[text.encode() for text in TEXTS[1:]]], pa.binary())
    assert [line.split(": ", 1)[1] for line in stored("text", broken)] == ["row 0: its text was touched (text)"]
    labels = pa.array([b"\xff", *[b"film"] * (len(rows) - 1)], pa.binary())
    broken = pa.Array.from_buffers(pa.string(), len(rows), labels.buffers())
    assert "row 0: its answer was touched" in stored("label", broken)[0]
    assert len(stored("text", pa.array(range(len(rows))))) == len(rows)
    pq.write_table(rows.drop_columns(["text"]), file)
    assert len(findings(file, keys)) == len(rows)
    pq.write_table(rows.drop_columns(["receipt"]), file)
    assert findings(file, keys) == [f"{file}: no column receipt; its answers have no receipts"]
    pq.write_table(rows.select(["text"]), file)
    assert findings(file, keys) == [f"{file}: no column model_digest; a job of a folder writes one"]
    file.write_bytes(file.read_bytes()[:-9])
    assert "edited.parquet: not a readable Parquet file" in findings(file, keys)[0]


def test_a_key_that_is_another_or_missing_is_said_and_a_rotated_one_verifies(
    answers: Path, keys: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.key"
    receipt_keys.make(other, "first")
    identity = ReceiptKeys.read(keys).current.id
    lines = findings(answers, other)
    assert len(lines) == len(TEXTS) + 3
    assert lines[0].endswith(f"row 0: its receipt is of the key {identity!r}, which {other} does not have")
    rotated = tmp_path / "rotated.key"
    shutil.copy2(keys, rotated)
    receipt_keys.make(rotated, "2027")
    checked = receipt_check.check(Folder(answers), ReceiptKeys.read(rotated))
    assert (checked.findings, dict(checked.keys)) == ([], {identity: len(TEXTS) + 3})


def test_a_replay_names_every_answer_that_the_version_does_not_give(
    answers: Path, keys: Path, tmp_path: Path, version: registry.Version
) -> None:
    checked = verification.verify(answers, keys, replay=True)
    assert (checked.findings, checked.answer()["replayed"]) == ([], len(TEXTS) + 3)
    assert checked.plain().endswith("23 answers predicted again, all equal to the bit")
    rows = pq.read_table(answers / "a.parquet")
    values, file = rows.to_pylist(), tmp_path / "forged.parquet"
    forged = receipts.Signer(ReceiptKeys.read(keys).current, COMMIT)
    before = values[1]["label"]
    values[1]["label"] = next(label for label in tiny.LABELS if label != before)
    values[2]["score"] += 2**-24  # about a bit
    model = receipts.AnsweringModel("single", "tiny", version.version, values[0]["model_digest"])
    columns = [{name: row[name] for name in ("label", "score")} for row in values]
    for row, receipt in zip(values, forged.receipts(model, rows.select(["text"]), columns), strict=True):
        row["receipt"] = receipt
    values[5] |= {"model_version": 9}
    values[6] |= {"model_digest": "0" * 64}
    pq.write_table(pa.Table.from_pylist(values, rows.schema), file)
    lines = verification.verify(file, keys, replay=True).findings
    assert len(lines) == 6, "two models that were touched; and two answers and two models by the replay"
    changed = f"row 1: tiny version 1 answers otherwise: label {values[1]['label']!r} -> {before!r}"
    for sentence in (
        changed,
        "row 2: tiny version 1 answers otherwise: score ",
        "no version 9",
        "its files are others",
    ):
        assert sum(sentence in line for line in lines) == 1, lines


def test_a_row_of_a_later_version_is_named_in_its_job_and_verified_by_itself(
    answers: Path, keys: Path, tmp_path: Path, version: registry.Version
) -> None:
    folder = tiny.classifier(tmp_path / "other-model", seed=9)
    later = registry.register("tiny", folder, CODE, "single", {"text": "犬"}, {"md5": "9" * 32})
    ledger.append("tiny", ledger.read("tiny"), "promote", later.version, "a test")
    try:
        run(answers.parent / "in", tmp_path / "later", keys)
    finally:
        ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
    copied = Path(shutil.copytree(answers, tmp_path / "out"))
    old, new = (pq.read_table(place / "a.parquet") for place in (answers, tmp_path / "later"))
    spliced = pa.concat_tables([old.slice(0, 3), new.slice(3, 1), old.slice(4)])
    pq.write_table(spliced, copied / "a.parquet")
    lines = verification.verify(copied, keys).findings
    assert any("a.parquet: its bytes are not those that were written" in line for line in lines)
    shutil.copy2(copied / "a.parquet", tmp_path / "alone.parquet")
    alone = verification.verify(tmp_path / "alone.parquet", keys, replay=True)
    assert alone.findings == []
    assert alone.answer()["receipts"]["models"] == {
        "tiny version 1": len(TEXTS) - 1,
        f"tiny version {later.version}": 1,
    }
    assert "as torch computes some" in alone.plain()
    changed = spliced.to_pylist()
    changed[3] |= {name: changed[2][name] for name in ("model_version", "model_digest")}
    pq.write_table(pa.Table.from_pylist(changed, spliced.schema), tmp_path / "alone.parquet")
    (line,) = findings(tmp_path / "alone.parquet", keys)
    assert f"row 3: its model was touched: the receipt is of tiny version {later.version}, files " in line


def test_mended_rows_have_receipts_of_the_code_that_scored_them(answers: Path, keys: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(answers, tmp_path / "out"))
    mended = tmp_path / "mended.jsonl"
    mended.write_text('{"source": "b.parquet", "row": 3, "values": {"text": "犬", "n": 1}}\n', encoding="utf-8")
    assert replay.run(mended, copied, "tiny", "later").scored == 1
    (row,) = pq.read_table(copied / "b.replayed-1.parquet").to_pylist()
    assert row["receipt"]["commit"] == "later"
    verified = verification.verify(copied, keys, replay=True)
    assert (verified.findings, verified.answer()["receipts"]["rows"]) == ([], len(TEXTS) + 4)
    with pytest.raises(InputError, match=r"no _job.json; it is not the folder of a scoring job"):
        verification.verify(tmp_path)
    assert audit.audit(copied).ok
