"""The commands of docs/operating.md about scoring a folder, in their order, from a killed job to a replayed row."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.scoring import job, manifest
from tests.support import champion, commands, faulty_s3, tiny
from tests.support.places import ROOT
from tests.support.servers import KEYS

pytestmark = pytest.mark.slow


class StoppedError(Exception):
    """A job is stopped after its first partition."""


@pytest.fixture
def lines(checkout: Path) -> Iterator[list[str]]:
    """The commands of the page, for the model `tiny`; rows are in `incoming`."""
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    part = page[page.index("## Score a folder") :]
    folder, in_s3 = re.findall(r"^```sh\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)[:2]
    champion.registered(checkout)
    Path("incoming/day=1").mkdir(parents=True)
    pq.write_table(pa.table({"text": tiny.TEXTS}), "incoming/day=1/more.parquet")
    Path("incoming/day=1/rows.csv").write_text("text,x\n犬,1\n映画,2\nonly\n犬,3\n", encoding="utf-8")
    yield [line.partition("  #")[0].strip().replace("headlines", "tiny") for line in (folder + in_s3).splitlines()]
    mlflow.set_tracking_uri(None)


@pytest.mark.usefixtures("checkout")
def test_a_folder_of_answers_has_no_name_of_a_file() -> None:
    Path("rows.csv").write_text("text\n犬\n", encoding="utf-8")
    for source in ("rows.csv", "."):
        refused = commands.bertline(f"score tiny {source} res.parquet").require(2).err
        assert "res.parquet: the answers to a folder, and to a CSV or JSONL file, are a folder" in refused
    assert not Path("res.parquet").exists()


@pytest.mark.usefixtures("checkout")
def test_options_without_a_meaning_are_refused() -> None:
    for options, sentence in (
        ("--replay-quarantine --max-bad 5", "are not for --replay-quarantine"),
        ("--replay-quarantine --prefix new_", "are not for --replay-quarantine"),
        ("--prefix '\udcff'", "--prefix: prefix '\\\\udcff' has a character that cannot be printed"),
    ):
        assert re.search(sentence, commands.bertline(f"score tiny rows.csv scored {options}").require(2).err)


@pytest.mark.timeout(900)
def test_from_a_folder_of_files_to_audited_answers(lines: list[str]) -> None:
    assert len(lines) == 15

    def stop(entry: manifest.Entry) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        job.run(Path("incoming"), Path("scored"), "tiny", "champion", job.Options(max_bad="10%"), stop)
    unfinished = commands.bertline("verify scored").require(1)
    assert "the job is not finished" in unfinished.out

    def run(line: str, status: int = 0) -> str:
        return commands.bertline(line.removeprefix("bertline ")).require(status).out

    bad = ", 1 bad rows in scored/_quarantine"
    assert run(lines[0]) == f"19 rows in 2 partitions scored by tiny version 1 into scored{bad}\n"
    assert "20 rows in 2 partitions: 19 scored by tiny version 1, 1 in quarantine, each once; root" in run(lines[1])
    assert run(lines[2]).startswith("scored: already finished, nothing to do: 19 rows in 2 partitions scored by")
    quarantined = json.loads(Path("scored/_quarantine/day=1/rows.csv.jsonl").read_text(encoding="utf-8"))
    quarantined["values"] = {"text": "犬", "x": "4"}
    Path("mended.jsonl").write_text(json.dumps(quarantined), encoding="utf-8")
    assert run(lines[3]) == "1 mended rows scored into scored; 0 rows are left in quarantine\n"
    answer = json.loads(run(lines[4]))
    assert (answer["ok"], answer["summary"]["scored"], answer["summary"]["quarantined"]) == (True, 20, 0)
    entry, summary = map(json.loads, run(lines[5]).splitlines())
    assert (entry["source"], entry["scored"], summary["quarantined"]) == ("rows.csv", 3, 1)
    assert "new_label" in pq.read_schema("other/rows.csv.parquet").names
    assert pq.read_table("scored/day=1", partitioning=None).num_rows == 20
    tonight = pq.read_table("incoming/day=1/more.parquet", partitioning=None).to_pylist()
    Path("tonight").mkdir()
    pq.write_table(pa.Table.from_pylist([{"text": "new"}, *tonight]), "tonight/rows.parquet")
    over = "into scored-tonight, 16 of them taken over from an earlier job, 1 in full"
    assert run(lines[6]) == f"17 rows in 1 partitions scored by tiny version 1 {over}\n"
    assert [line.split(", ")[0] for line in run(lines[7]).splitlines()] == [
        "other: finished",
        "scored: finished",
        "scored-tonight: finished",
    ]
    assert re.fullmatch(r"receipts\.key: key-1-\w{8} signs receipts from now on\n", run(lines[8]))
    assert run(lines[9]).endswith("version 1 into signed, 1 bad rows in signed/_quarantine\n")
    verified = run(lines[10]).splitlines()
    assert re.fullmatch(
        r"19 receipts checked of label, score: 19 by tiny version 1; signed with key-1-\w{8}", verified[1]
    )
    assert verified[2].startswith("19 answers predicted again, all equal within 0.0001")
    in_s3(lines[11:])
    values = pq.read_table("signed/day=1/more.parquet", partitioning=None).to_pylist()
    pq.write_table(pa.Table.from_pylist([values[0] | {"text": "!"}, *values[1:]]), "touched.parquet")
    touched = commands.bertline("verify touched.parquet --keys receipts.key --json").require(1)
    assert json.loads(touched.out)["findings"] == ["touched.parquet: row 0: its text was touched (text)"]
    refused = commands.bertline("score tiny incoming/day=1/more.parquet one.parquet --max-bad 1").require(2)
    assert "are for folders, CSV and JSONL, not one Parquet file" in refused.err


def in_s3(lines: list[str]) -> None:
    """The commands for rows in S3, whose answers are those of the folder here."""
    with faulty_s3.running() as proxy, pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": proxy.address}.items():
            patch.setenv(name, value)
        client = faulty_s3.client(proxy)
        client.create_bucket(Bucket="rows")
        for name in ("day=1/more.parquet", "day=1/rows.csv"):
            client.upload_file(f"incoming/{name}", "rows", f"incoming/{name}")
        scored, verified, here, jobs = (
            commands.bertline(line.removeprefix("bertline ")).require(0).out for line in lines
        )
        answers = client.get_object(Bucket="rows", Key="scored/day=1/more.parquet")["Body"].read()
    out = "s3://rows/scored"
    assert scored == f"19 rows in 2 partitions scored by tiny version 1 into {out}, 1 bad rows in {out}/_quarantine\n"
    assert "20 rows in 2 partitions: 19 scored by tiny version 1, 1 in quarantine, each once; root" in verified
    assert (
        here
        == "3 rows in 1 partitions scored by tiny version 1 into other-here, 1 bad rows in other-here/_quarantine\n"
    )
    assert jobs.startswith(f"{out}: finished, 2 of 2 partitions, 20 of 20 rows by tiny version 1")
    assert answers == Path("scored/day=1/more.parquet").read_bytes()
