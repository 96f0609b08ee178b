"""The executor on a graph of shell commands, which DVC runs as well: order, limits, failures, and dvc.lock."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.repo import Repo

from pipelines.core.errors import InputError
from pipelines.graph import executor, why
from tests.support import disks

Write = Callable[..., None]
MEET = "touch {me}; for i in $(seq 100); do test -e {you} && exec touch {me}.txt; sleep 0.1; done; exit 3"


def stage(cmd: str | list[str], *deps: str, outs: tuple[str, ...] = (), params: tuple[str, ...] = ()) -> dict[str, Any]:
    fields: dict[str, Any] = {"cmd": cmd, "outs": list(outs)}
    return fields | ({"deps": list(deps)} if deps else {}) | ({"params": list(params)} if params else {})


@pytest.fixture
def graph(checkout: Path) -> Write:
    """Writes dvc.yaml and params.yaml of a new repository."""
    Repo.init(no_scm=True).close()

    def write(stages: dict[str, Any], **params: Any) -> None:
        Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
        Path("params.yaml").write_text(yaml.safe_dump({"resources": {"threads": 1}, **params}))

    return write


def dvc(*words: str) -> str:
    command = [sys.executable, "-m", "dvc", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


CHAIN = {
    "first": stage("echo 1 > first.txt", outs=("first.txt",)),
    "second": stage("cat first.txt given.txt > second.txt", "first.txt", "given.txt", outs=("second.txt",)),
    "other": stage(["true", "echo other > other.txt"], outs=("other.txt",)),
    "last": stage("cat second.txt other.txt > last.txt", "second.txt", "other.txt", outs=("last.txt",)),
}


def test_dvc_lock_is_what_dvc_repro_writes(graph: Write) -> None:
    graph(CHAIN)
    Path("given.txt").write_text("given\n")
    assert set(executor.run()) == set(CHAIN)
    assert Path("last.txt").read_text() == "1\ngiven\nother\n"
    ours = Path("dvc.lock").read_bytes()
    assert "up to date" in dvc("status")
    assert "didn't change" in dvc("repro")
    dvc("remote", "add", "-q", "-d", "there", str(Path("remote").resolve()))
    assert "4 files pushed" in dvc("push")
    for name in ("dvc.lock", "first.txt", "second.txt", "other.txt", "last.txt"):
        Path(name).unlink()
    subprocess.run(["rm", "-rf", ".dvc/cache"], check=True)
    dvc("repro", "-q")
    assert Path("dvc.lock").read_bytes() == ours
    assert executor.run() == []


def test_only_what_changed_runs_and_the_run_cache_gives_back_what_was(graph: Write) -> None:
    graph(CHAIN)
    source = Path("given.txt")
    source.write_text("given\n")
    executor.run()
    source.write_text("another\n")
    assert set(executor.run()) == {"second", "last"}
    assert Path("last.txt").read_text() == "1\nanother\nother\n"
    Path("state/logs/second.log").unlink()
    source.write_text("given\n")
    assert set(executor.run()) == {"second", "last"}
    assert Path("last.txt").read_text() == "1\ngiven\nother\n"
    assert not Path("state/logs/second.log").exists()  # nothing ran: DVC's run-cache had the result
    assert executor.run(["first"]) == []


def test_independent_stages_run_at_the_same_time(graph: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    graph({me: stage(MEET.format(me=me, you=you), outs=(f"{me}.txt",)) for me, you in (("a", "b"), ("b", "a"))})
    assert set(executor.run()) == {"a", "b"}  # each waits until the other has begun


def test_threads_are_no_more_than_cores(graph: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    alone = "mkdir busy || exit 4; sleep 0.3; rmdir busy; echo {0} > {0}.txt"
    stages = {name: stage(alone.format(name), outs=(f"{name}.txt",)) for name in ("a", "b", "c")}
    graph(stages, resources={"threads": 1, "stages": {name: {"threads": 2} for name in stages}})
    assert set(executor.run()) == set(stages)


def test_jobs_bound_what_runs_together(graph: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    alone = "mkdir busy || exit 4; sleep 0.3; rmdir busy; echo {0} > {0}.txt"
    graph({name: stage(alone.format(name), outs=(f"{name}.txt",)) for name in ("a", "b", "c")})
    assert len(executor.run(jobs=1)) == 3


def test_a_failed_stage_is_named_with_its_last_line_and_the_rest_goes_on_if_asked_to(graph: Write) -> None:
    broken = {"bad": stage("echo before; echo the disk is gone >&2; exit 2", outs=("bad.txt",))}
    after = {"after": stage("cp bad.txt after.txt", "bad.txt", outs=("after.txt",))}
    Path("given.txt").write_text("given\n")
    graph({**broken, **after, **CHAIN})
    with pytest.raises(InputError, match=r"bad failed: the disk is gone \(exit status 2; state/logs/bad.log\); not st"):
        executor.run(jobs=1, keep_going=True)
    assert Path("last.txt").read_text() == "1\ngiven\nother\n"
    assert not Path("after.txt").exists()
    broken["bad"]["cmd"] = "exit 2"
    graph({**broken, **after})
    with pytest.raises(InputError, match="bad failed: it printed nothing"):
        executor.run()
    broken["bad"]["cmd"] = "kill -9 $$"
    graph({**broken, **after})
    with pytest.raises(InputError, match="bad failed: killed by signal 9; perhaps out of memory"):
        executor.run()


def test_a_failed_stage_runs_again_as_often_as_resources_say(graph: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "REST_SECONDS", 0.3)
    fails = "echo x >> tries; test $(wc -l < tries) -ge 3 && echo done > a.txt"
    stages = {"a": stage(fails, outs=("a.txt",)), "b": stage("cat a.txt > b.txt", "a.txt", outs=("b.txt",))}
    graph(stages, resources={"threads": 1, "retries": 1})
    with pytest.raises(InputError, match=r"a failed: it printed nothing \(exit status 1; .*\); not started: b"):
        executor.run()
    assert Path("tries").read_text() == "x\nx\n"
    Path("tries").unlink()
    graph(stages, resources={"threads": 1, "stages": {"a": {"retries": 2}}})
    assert executor.run() == ["a", "b"]
    assert Path("b.txt").read_text() == "done\n"
    assert Path("tries").read_text() == "x\nx\nx\n"


def test_a_missing_file_and_a_missing_output_fail_in_one_sentence(graph: Write) -> None:
    graph(CHAIN)
    with pytest.raises(InputError, match=r"second failed: given\.txt: no such file, and no stage makes it"):
        executor.run(keep_going=True)
    graph({"idle": stage("true", outs=("never.txt",))})
    with pytest.raises(InputError, match=r"idle failed: output 'never\.txt' does not exist"):
        executor.run()
    with pytest.raises(InputError, match="'nobody'"):
        executor.run(["nobody"])


def test_what_a_stage_read_is_what_is_recorded(graph: Write) -> None:
    """DVC would take the new text for the one it read, and give the output to whoever asks for that text again."""
    graph({"slow": stage("cat given.txt > out.txt; echo new > given.txt", "given.txt", outs=("out.txt",))})
    Path("given.txt").write_text("old\n")
    with pytest.raises(InputError, match=r"^slow failed: given\.txt was edited while slow ran; run again$"):
        executor.run()
    assert not Path("dvc.lock").exists()
    assert executor.run() == ["slow"]
    assert Path("out.txt").read_text() == "new\n"
    assert "up to date" in dvc("status")


@pytest.mark.parametrize("read", ["new", "old"])
def test_params_that_a_stage_did_not_read_are_not_recorded(graph: Write, read: str) -> None:
    """They were edited before the stage read them, or after; the provenance of its output says which."""
    made = f'{{"stage": "ingest", "params": {{"corpus": "custom", "edition": "{read}"}}}}'
    write = f"sed -i s/old/new/ params.yaml; mkdir raw; echo '{made}' > raw/provenance.json"
    every = {"foreach": ["mine"], "do": stage(write, outs=("raw",), params=("ingest.mine",))}
    graph({"ingest": every}, ingest={"mine": {"corpus": "custom", "edition": "old"}})
    if read == "old":
        assert executor.run() == ["ingest@mine"]
        assert "edition: old" in Path("dvc.lock").read_text()
        return
    refused = r"ingest@mine failed: params\.yaml: ingest\.mine was edited while ingest@mine began; run again"
    with pytest.raises(InputError, match=refused):
        executor.run()
    assert not Path("dvc.lock").exists()


def test_code_that_was_edited_while_it_was_imported_ends_the_stage(
    graph: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph({"slow": stage("sleep 60; touch out.txt", outs=("out.txt",))})
    checks = iter([None, InputError("loop.py was edited while the graph ran; run again")])

    def check(code: executor.CodeSnapshot, name: str) -> None:
        if error := next(checks):
            raise error

    monkeypatch.setattr(executor.CodeSnapshot, "check", check)
    began = time.monotonic()
    with pytest.raises(InputError, match=r"^slow failed: loop\.py was edited while the graph ran; run again$"):
        executor.run()
    assert time.monotonic() - began < 30


def test_a_warm_process_that_was_killed_is_named(graph: Write) -> None:
    kill = "kill -9 $(ps -o ppid= -p $$)"
    graph({"first": stage(f"{kill}; sleep 9", outs=("out.txt",))})
    with pytest.raises(InputError, match="the process that runs the stages was killed, and first with it; run again"):
        executor.run()


def test_a_link_out_of_the_checkout_is_refused_before_a_stage_runs(graph: Write, checkout: Path) -> None:
    graph({"first": stage("touch ran artifacts/deep/out.txt", outs=("artifacts/deep/out.txt",))})
    (elsewhere := checkout.with_name("elsewhere")).mkdir()
    (elsewhere / "deep").mkdir()
    Path("artifacts").symlink_to(elsewhere)
    with pytest.raises(InputError, match=f"^artifacts is a link to {elsewhere}, and DVC needs it in the checkout; "):
        executor.run()
    assert not Path("ran").exists()
    Path("artifacts").unlink()
    Path("artifacts/deep").mkdir(parents=True)
    assert executor.run() == ["first"]


def test_data_that_was_not_pulled_names_the_command_that_brings_it(graph: Write) -> None:
    graph({"use": stage("cp encoders out.txt", "encoders", outs=("out.txt",))})
    Path("encoders").write_text("weights\n")
    dvc("add", "-q", "encoders")
    Path("encoders").unlink()
    with pytest.raises(InputError, match=r"failed: encoders: not here; `dvc pull encoders\.dvc` brings it"):
        executor.run()
    dvc("checkout", "-q", "encoders.dvc")
    assert executor.run() == ["use"]


def test_marks_of_a_merge_in_dvc_lock_are_named(graph: Write) -> None:
    graph({"first": stage("touch out.txt", outs=("out.txt",))})
    executor.run()
    lock = Path("dvc.lock")
    lock.write_text(f"<<<<<<< HEAD\n{lock.read_text()}=======\n>>>>>>> other\n")
    for run in (lambda: executor.run(), lambda: why.why("first")):
        with pytest.raises(InputError, match=r"^dvc\.lock has the marks of a merge; take one of the two \(`git checko"):
            run()


def test_a_stage_leaves_environment_folder_and_threads_as_they_were(graph: Write) -> None:
    spoil = "cd /; export GIVEN=1; ulimit -n 20; echo spoilt > $OLDPWD/spoil.txt"
    clean = "pwd > clean.txt; ulimit -n >> clean.txt; echo $GIVEN >> clean.txt"
    graph({"a": stage(spoil, outs=("spoil.txt",)), "b": stage(clean, "spoil.txt", outs=("clean.txt",))})
    executor.run()
    folder, files, omp_threads = Path("clean.txt").read_text().splitlines()
    assert (folder, omp_threads) == (str(Path.cwd()), "")
    assert int(files) > 20


def test_two_runs_at_once_and_a_dvc_repro_meanwhile(graph: Write) -> None:
    graph({"slow": stage("touch begun; while test ! -e go; do sleep 0.05; done; echo > out.txt", outs=("out.txt",))})
    command = [sys.executable, "-m", "flows.cli", "run"]
    root = str(Path(executor.__file__).parents[2])
    with subprocess.Popen(command, env={"PYTHONPATH": root, "PATH": "/bin:/usr/bin"}) as first:
        while not Path("begun").exists():
            assert first.poll() is None
            time.sleep(0.02)
        with pytest.raises(InputError, match=r"it is already running \(process \d+ on "):
            executor.run()
        other = subprocess.run([sys.executable, "-m", "dvc", "repro"], capture_output=True, text=True, check=False)
        assert other.returncode
        assert f"(PID {first.pid})" in other.stderr
        Path("go").touch()
        assert first.wait() == 0
    assert "up to date" in dvc("status")


def test_why_names_param_file_and_output(graph: Write) -> None:
    stages = {
        "make": stage("mkdir rows; cp given.txt rows/train.txt", "given.txt", outs=("rows",), params=("make.size",)),
        "use": stage("cat rows/* > used.txt", "rows", outs=("used.txt",)),
    }
    size = {"a": {"b": 1}, "c": [1]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.core.params.FREE", {"resources", "make"})
        graph(stages, make={"size": size})
        Path("given.txt").write_text("1\n")
        assert why.why("use")[1:] == [
            "  it has never run: dvc.lock does not have it",
            "  make would run first, and may change it",
        ]
        executor.run()
        [line] = why.why("make")
        assert line.startswith("make is up to date: its command, 1 param, 1 file or folder")
        graph(stages, make={"size": {"a": {"b": 2}, "d": 0}})
        assert why.why("make")[1:] == [
            "  params.yaml: make.size.a.b: 1 -> 2",
            "  params.yaml: make.size.c: [1] -> nothing",
            "  params.yaml: make.size.d: nothing -> 0",
        ]
        assert why.affected_lines(*why.affected([])) == [
            "make: params.yaml: make.size.a.b: 1 -> 2",
            "use: if make changes what it reads",
        ]
        graph(stages, make={"size": size})
        Path("given.txt").write_text("2\n")
        Path("rows/train.txt").chmod(0o644)
        Path("rows/train.txt").write_text("3\n")
        Path("rows/more.txt").write_text("3\n")
        assert why.why("make")[1:] == [
            "  given.txt: modified",
            "  rows: modified (more.txt new, train.txt modified)",
        ]
        Path("used.txt").unlink()
        assert why.why("use")[1:3] == [
            "  rows: modified (more.txt new, train.txt modified)",
            "  used.txt: deleted",
        ]
        stages["use"]["cmd"] = "cat rows/* rows/* > used.txt"
        graph(stages, make={"size": size})
        assert "its command differs from dvc.lock: cat rows/* rows/* > used.txt" in why.why("use")[1]
        with pytest.raises(InputError, match="nobody"):
            why.why("nobody")


def test_a_full_disk_is_named(graph: Write) -> None:
    graph({"big": stage("head -c 9 /dev/zero > /dev/full", outs=("out.txt",))})
    with pytest.raises(InputError, match=r"big failed: .*No space left on device"):
        executor.run()


@pytest.mark.parametrize("room", [1 << 20, 64 << 10])
def test_a_full_disk_of_the_cache_fails_the_run_and_loses_nothing(graph: Write, room: int) -> None:
    graph({"big": stage("head -c 3000000 /dev/urandom > out.txt", outs=("out.txt",))})
    with disks.small(Path(".dvc/cache"), room):
        with pytest.raises(InputError, match="No space left on device"):
            executor.run()
        assert not Path("dvc.lock").exists()
    executor.run()
    assert Path("out.txt").stat().st_size == 3_000_000
    assert "out.txt" in Path("dvc.lock").read_text()


def test_code_that_was_edited_while_the_graph_ran_is_not_run(workspace: Path) -> None:
    code = executor.CodeSnapshot()
    assert "torch" in code.modules("finetune@headlines")
    assert not {"torch", "transformers"} & {name.partition(":")[0] for name in code.modules("ingest@livedoor-samples")}
    assert "pipelines.compression.methods.drop_layers" in code.modules("compress@headlines-drop1")
    code.check("finetune@headlines")
    code.check("ingest@livedoor-samples")
    with (workspace / "pipelines/training/loop.py").open("a") as file:
        file.write("# a comment\n")
    code.check("finetune@headlines")
    with (workspace / "pipelines/training/loop.py").open("a") as file:
        file.write("MORE = 1\n")
    code.check("ingest@livedoor-samples")
    with pytest.raises(InputError, match=r"pipelines/training/loop\.py was edited while the graph ran; run again"):
        code.check("finetune@headlines")


@pytest.mark.parametrize("damaged", [b"", b"{", b"[1]", b'{"first": "x", "last": [1]}', b'{"first": NaN}', b"\xff\0"])
def test_damaged_seconds_are_made_anew(graph: Write, damaged: bytes) -> None:
    graph({"first": stage("echo 1 > first.txt", outs=("first.txt",))})
    executor.SECONDS_FILE.parent.mkdir(parents=True, exist_ok=True)
    executor.SECONDS_FILE.write_bytes(damaged)
    assert executor.run() == ["first"]
    assert json.loads(executor.SECONDS_FILE.read_text()).keys() == {"first"}
