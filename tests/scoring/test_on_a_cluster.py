"""Partitions scored on two Ray nodes: the files of one process, whichever actor or node is killed, each named once."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.scoring import audit, job, job_folders, job_record, manifest, ray_scorers
from pipelines.scoring.node_scorer import PART_BYTES, NodeScorer, Other
from pipelines.scoring.scoring_work import Work
from pipelines.tracking import registry
from tests.support import commands, faulty_s3, ray_nodes, tiny
from tests.support.places import ROOT
from tests.support.ray_nodes import Cluster
from tests.support.servers import BUCKET, KEYS

pytestmark = pytest.mark.slow
ALL = job.Options(max_bad="100%")


@pytest.fixture(scope="module")
def cluster(version: registry.Version) -> Iterator[Cluster]:
    """Two nodes with a CPU each; RAY_ADDRESS names them, and they know a bucket."""
    import ray

    with pytest.MonkeyPatch.context() as patch, faulty_s3.running() as proxy:
        shared = {"PYTHONPATH": str(ROOT), "AWS_ENDPOINT_URL": proxy.address, **KEYS}
        for name, value in (ray_nodes.SETTINGS | shared).items():
            patch.setenv(name, value)
        with ray_nodes.started() as nodes:
            nodes.second()
            patch.setenv("RAY_ADDRESS", nodes.address)
            yield nodes
            ray.shutdown()


def write(source: Path, files: int = 4, rows: int = 16) -> None:
    for number in range(files):
        texts = [f"{tiny.TEXTS[i % 4]} {number} {i}" for i in range(rows)]
        pq.write_table(pa.table({"text": [*texts, None], "n": range(rows + 1)}), source / f"{number}.parquet")


def run(source: Path | str, target: Path | str, on_partition: job.OnPartition | None = None) -> job.Outcome:
    return job.run(source, target, "tiny", "champion", ALL, on_partition)


def run_here(source: Path, target: Path) -> job.Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        return run(source, target)


def scorers_of(cluster: Cluster, number: int) -> list[psutil.Process]:
    """The actors that score on a node."""
    node = cluster.nodes[number]
    children = psutil.Process(node.pid).children(recursive=True) if node.poll() is None else []
    return [child for child in children if "NodeScorer" in commands.line_of(child)]


def files(target: Path) -> dict[str, bytes]:
    """The answers, the bad rows, and the facts of the entries, by name."""
    written = [file for file in target.rglob("*.parquet*") if file.is_file()]
    entries = {name: repr(manifest.facts(entry)).encode() for name, entry in manifest.read(target).items()}
    return entries | {file.relative_to(target).as_posix(): file.read_bytes() for file in written}


def test_the_cluster_writes_the_files_of_one_process_also_in_s3(source: Path, target: Path, cluster: Cluster) -> None:
    write(source)
    large = pa.array([os.urandom(1 << 20) for _ in range(PART_BYTES * 3 // 2 >> 20)])  # its answers go in parts
    pq.write_table(pa.table({"text": ["犬"] * len(large), "bytes": large}), source / "large.parquet")
    (source / "c.csv").write_text("text,x\n犬,1\nonly\n映画,2\n", encoding="utf-8")
    here, names, processes = run_here(source, target), list[str](), 0

    def count(entry: manifest.Entry) -> None:
        nonlocal processes
        names.append(entry["source"])
        processes += len(scorers_of(cluster, 0) + scorers_of(cluster, 1))

    there = run(source, target.with_name("there"), count)
    assert processes
    assert sorted(names) == sorted(file.name for file in source.iterdir())
    assert files(Path(there.target)) == files(target)
    assert there.summary["root"] == here.summary["root"]
    assert audit.audit(there.target).findings == []
    assert not list(Path(there.target).glob("_partial/*"))
    with job_folders.opened(f"s3://{BUCKET}/in") as folder:
        for file in source.iterdir():
            folder.objects.put(f"in/{file.name}", file, "", None)  # type: ignore[attr-defined]
    s3 = run(f"s3://{BUCKET}/in", f"s3://{BUCKET}/out")
    assert s3.summary["root"] == here.summary["root"]
    assert audit.audit(f"s3://{BUCKET}/out").findings == []


def test_a_partition_that_changes_is_named_and_a_cancelled_job_goes_on(
    source: Path, target: Path, cluster: Cluster
) -> None:
    write(source, 8)

    def change(entry: manifest.Entry) -> None:
        write(source, 8, rows=5)

    with pytest.raises(InputError, match=r"partitions are not as they were when the job began: .*\(changed\)"):
        run(source, target, change)
    assert 1 <= len(manifest.files(target)) <= 7

    place = target.with_name("cancelled")
    with pytest.raises(InputError, match="cancelled; what is finished stays"):
        run(source, place, lambda entry: (place / job_folders.CANCEL).touch())
    ray_nodes.wait_until(lambda: not any(scorers_of(cluster, node) for node in (0, 1)), "actors go on")
    finished = len(manifest.files(place))
    assert 1 <= finished <= 7
    assert run(source, place).scored_now == 8 - finished
    assert audit.audit(place).findings == []


def test_a_node_that_does_not_see_the_folder_or_the_model_is_named(
    source: Path, target: Path, version: registry.Version
) -> None:
    write(source, 2)
    run_here(source, target)
    record, model = job_record.read(target), registry.folder(version)
    assert record
    for wrong, folder, place in (
        (replace(record, source="/nowhere/rows"), model, "/nowhere/rows: not there"),
        (record, Path("/nowhere/model"), "/nowhere/model: not there, and it is the model"),
        (replace(record, model_digest="0"), model, f"{model}: other files of the model"),
    ):
        problem = NodeScorer(wrong, folder, target).begin()
        assert problem.startswith("the node ")
        assert f": {place}" in problem
        assert problem.endswith("; all nodes must see it at the same path, see docs/cluster.md")

    scorer, planned = NodeScorer(record, model, target), record.partitions
    assert scorer.begin() == ""
    answer = scorer.score(0, replace(planned[0], digest="0"))
    assert isinstance(answer, Other)
    scorer.stop()
    with job_folders.opened(source) as rows, job_folders.opened(target) as answers:
        actors = ray_scorers._Actors(Work(record, model, rows, answers, planned), 0)
        with pytest.raises(InputError, match=r"0.parquet: the node .* sees another file there, or none"):
            actors._result(0, answer)
        (source / "0.parquet").unlink()
        assert actors._result(0, answer) is None, "it changed for all"


def test_processes_that_die_again_and_again_end_the_job(source: Path, target: Path, cluster: Cluster) -> None:
    write(source, 2)
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(0.05):
            for actor in (*scorers_of(cluster, 0), *scorers_of(cluster, 1)):
                with suppress(psutil.NoSuchProcess):
                    actor.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(InputError, match=r"processes on the cluster died \d times in a row while they") as refused:
            run(source, target)
    finally:
        ended.set()
        killer.join()
    assert "run the job again when that is mended" in str(refused.value)
    assert run(source, target).summary["scored"] == 32
    assert audit.audit(target).findings == []


def test_a_killed_actor_and_a_killed_node_lose_no_row_and_double_none(
    source: Path, target: Path, cluster: Cluster
) -> None:
    """The last test of the file: one node is left."""
    write(source, 16, rows=800)
    here, names, killed = run_here(source, target), list[str](), list[Any]()

    def kill(entry: manifest.Entry) -> None:
        names.append(entry["source"])
        if len(names) == 1:
            ray_nodes.wait_until(lambda: bool(scorers_of(cluster, 0) and scorers_of(cluster, 1)), "one node scores")
        if len(names) == 5:
            killed.extend(scorers_of(cluster, 0))
            killed[0].kill()
        if len(names) == 9:
            killed.extend(scorers_of(cluster, 1))
            ray_nodes.kill(cluster.nodes[1])

    there = run(source, target.with_name("there"), kill)
    assert len(killed) == 2
    assert sorted(names) == sorted(file.name for file in source.iterdir())
    assert there.summary["root"] == here.summary["root"]
    assert files(Path(there.target)) == files(target)
    assert audit.audit(there.target).findings == []
