"""`bertline jobs`: states, counts and times of jobs; one that is cancelled ends at its next piece, and is resumed."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.scoring import audit, job, job_list, job_record, manifest
from tests.support import commands, tiny

pytestmark = pytest.mark.slow


def write(source: Path) -> None:
    for name in "abc":
        pq.write_table(pa.table({"text": tiny.TEXTS}), source / f"{name}.parquet")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_cancelled_job_ends_at_its_next_piece_and_resumes(source: Path, target: Path, workers: int) -> None:
    write(source)
    states = []

    def cancel(entry: manifest.Entry) -> None:
        states.append(job_list.listed(target).state)
        job_list.cancel(target)

    with pytest.raises(InputError, match=r"out: cancelled; what is finished stays: bertline jobs .* --resume goes on"):
        job.run(source, target, "tiny", "champion", job.Options(prefix="p_"), cancel, workers)
    (cancelled,) = job_list.below(target.parent)
    assert (states[0], cancelled.state, cancelled.partitions) == ("under way", "cancelled", 3)
    assert 1 <= cancelled.partitions_done < 3
    assert cancelled.rows_done == 16 * cancelled.partitions_done
    with pytest.raises(InputError, match="no process works on its job; there is nothing to cancel"):
        job_list.cancel(target)
    printed = commands.bertline(f"jobs {target} --resume").require(0).out
    assert printed == f"48 rows in 3 partitions scored by tiny version 1 into {target}\n"
    assert "p_label" in pq.read_schema(target / "c.parquet").names
    (finished,) = json.loads(commands.bertline(f"jobs {target.parent} --json").require(0).out)
    assert (finished["state"], finished["rows_done"], finished["version"]) == ("finished", 48, 1)
    assert "2026" <= finished["begun"] <= finished["ended"]
    assert audit.audit(target).findings == []


def test_jobs_are_listed_by_their_folders(source: Path, target: Path) -> None:
    write(source)

    def stop(entry: manifest.Entry) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.run(source, target / "b", "tiny", "champion", job.Options(), stop)
    job.run(source, target / "a", "tiny", "champion", job.Options())
    lines = job_list.plain([one.answer() for one in job_list.below(target)]).splitlines()
    assert lines[0].startswith(f"{target}/a: finished, 3 of 3 partitions, 48 of 48 rows by tiny version 1, ")
    assert lines[1].startswith(f"{target}/b: stopped, 1 of 3 partitions, 16 of 48 rows by tiny version 1, ")
    assert job_list.plain([]) == "no scoring jobs"
    record = target / "b" / job_record.FILE
    content = json.loads(record.read_text())
    record.write_text(
        json.dumps({name: content[name] for name in content if name not in ("begun", "workers", "since")})
    )
    assert job_list.listed(target / "b").begun == "", "a record of an older release"
    for content, why in (("{}", "not the summary of a job: partitions, rows or "), ("[]", "it must map names to val")):
        (target / "a" / manifest.SUMMARY).write_text(content)
        lines = job_list.plain([one.answer() for one in job_list.below(target)]).splitlines()
        assert lines[0].startswith(f"{target}/a: damaged: {target}/a/_manifest.json: {why}")
        assert lines[1].startswith(f"{target}/b: stopped, 1 of 3 partitions, ")
    with pytest.raises(InputError, match="not the folder of a scoring job"):
        job_list.listed(target)
    with pytest.raises(InputError, match="no such folder"):
        job_list.below(target / "nowhere")
