"""The whole graph by DVC on the samples: once, again with nothing to do, after a change, and after a kill."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dvc.cli import main as dvc_command
from dvc.repo import Repo

from pipelines.core import provenance, tables
from pipelines.core.errors import InputError
from pipelines.graph import code_manifest, executor, why
from pipelines.graph.dvc_steps import locked, opened
from pipelines.graph.plan import Plan
from tests.support import forked
from tests.support.places import ROOT
from tests.support.small_graph import Made

pytestmark = pytest.mark.slow


def change(file: Path, *keys: str, value: object) -> None:
    params = yaml.safe_load(file.read_text())
    place = params
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    file.write_text(yaml.safe_dump(params))


def stale() -> set[str]:
    """The stages that would run again."""
    with opened() as repo, locked(repo):
        return Plan.of(repo, []).stale


def stale_by_dvc() -> set[str]:
    """The stages that `dvc repro` would run after `code`, which runs every time."""
    code_manifest.write(code_manifest.manifests(Path()))
    with Repo() as repo:
        return set(repo.status()) - {code_manifest.STAGE}


def check_what_an_edit_makes_stale(repository: Path) -> None:
    """A statement in a file makes the stages stale that import it; a comment and a new file make none."""
    assert stale() == set()
    for nobodys in ("entries/promote.py", "entries/tune.py", "graph/checking.py"):
        with (repository / "pipelines" / nobodys).open("a") as file:
            file.write("MORE = 1\n")
    (repository / "pipelines/data/formats/new.py").write_text('"""Nobody imports it yet."""\n')
    assert stale() == set()
    archives = repository / "pipelines/data/formats/archives.py"  # livedoor imports it
    before = archives.read_text()
    archives.write_text(f"{before}# a comment\n")
    assert stale() == set()
    archives.write_text(f"{before}MORE = 1\n")
    listed = code_manifest.written()
    assert stale() == {"ingest@livedoor-samples", "prepare@headlines", "prepare@bodies"}
    way = ("prepare.headlines.corpus", "pipelines/data/corpora/livedoor.py", "pipelines/data/formats/archives.py")
    assert why.why("prepare@headlines")[1:] == [
        f"  pipelines/data/formats/archives.py: modified ({' -> '.join(way)})",
        "  ingest@livedoor-samples would run first, and may change it",
    ]
    assert code_manifest.written() == listed, "a question writes nothing"
    assert stale_by_dvc() == {"ingest@livedoor-samples", "prepare@headlines", "prepare@bodies"}
    archives.write_text(before)
    assert stale() == set()
    export = repository / "pipelines/export/onnx_export.py"
    before = export.read_text()
    export.write_text(f"{before}MORE = 1\n")
    assert stale() == stale_by_dvc() == {"export@headlines"}
    file = "pipelines/export/onnx_export.py"
    assert why.why("export@headlines")[1:] == [f"  {file}: modified (pipelines/stages/export.py -> {file})"]
    export.write_text(before)
    assert stale() == stale_by_dvc() == set()


def check_that_another_evaluation_changes_no_md5(repository: Path) -> None:
    """What differs from run to run is no output: another machine has the same dvc.lock."""
    lock, timings = repository / "dvc.lock", repository / "artifacts/timings/headlines.json"
    before, took = lock.read_bytes(), timings.read_bytes()
    command = [sys.executable, "-m", "dvc", "repro", "-q", "-s", "-f", "evaluate@headlines"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(command, check=True, env=os.environ | {"PATH": path})
    assert lock.read_bytes() == before
    assert timings.read_bytes() != took


def check_what_dvc_shows() -> None:
    """A few numbers a run, and a picture for each thing that is drawn."""
    with Repo() as repo:
        scores = repo.metrics.show()[""]["data"]
        numbers = {Path(file).stem: set(read["data"]) for file, read in scores.items()}
        assert numbers["headlines"] == {"accuracy", "low", "high", "loss"}
        assert numbers["headlines-svm"] == {"accuracy", "low", "high"}
        assert set(numbers) == {"headlines", "headlines-frozen", "headlines-int8", "headlines-svm", "tiny-ja"}
        sources = next(repo.plots.collect())["workspace"]["sources"]["data"]
        lines = {Path(file).parts[-2:]: source["data_source"]()["data"] for file, source in sources.items()}
    assert {tuple(line) for line in lines["calibration", "headlines.csv"]} == {("confidence", "accuracy", "rows")}
    assert sum(int(line["rows"]) for line in lines["confusion", "headlines-svm.csv"]) == 90
    assert [line["step"] for line in lines["losses", "tiny-ja.csv"]]


def test_the_graph_runs_once_and_then_only_what_changed(finished: Made, repository: Path) -> None:
    assert {
        "ingest@livedoor-samples",
        "pretrain@tiny-ja",
        "compress@headlines-int8",
        "export@headlines",
        "report",
    } <= set(finished.ran)
    assert len(finished.ran) == 16
    assert len((repository / "dvc.lock").read_text().splitlines()) < 1000
    assert "headlines-int8    dynamic_int8" in (repository / "artifacts/reports/table.txt").read_text()
    assert tables.read(repository / "artifacts/predictions/headlines/test.parquet").num_rows == 90
    bytecode = repository / "pipelines/core/__pycache__/errors.cpython-399.pyc"  # another Python's
    bytecode.parent.mkdir(exist_ok=True)
    bytecode.write_bytes(b"no other code")
    assert executor.run([]) == []
    check_what_dvc_shows()
    check_what_an_edit_makes_stale(repository)
    check_that_another_evaluation_changes_no_md5(repository)

    change(repository / "params.yaml", "finetune", "headlines-frozen", "learning_rate", value=0.02)
    assert why.why("finetune@headlines-frozen")[1:] == [
        "  params.yaml: finetune.headlines-frozen.learning_rate: 0.01 -> 0.02"
    ]
    assert why.why("finetune@headlines")[0].startswith("finetune@headlines is up to date: its command, ")
    assert executor.run([]) == ["finetune@headlines-frozen", "evaluate@headlines-frozen", "report"]
    change(repository / "params.yaml", "resources", "threads", value=1)
    assert executor.run([]) == []

    before = (repository / "artifacts/models/headlines-frozen/provenance.json").read_bytes()
    change(repository / "params.yaml", "finetune", "headlines-frozen", "learning_rat", value=0.02)
    with pytest.raises(
        InputError, match=r"finetune\.headlines-frozen: no key 'learning_rat' \(did you mean 'learning_rate'\?\)"
    ):
        executor.run([])
    assert (repository / "artifacts/models/headlines-frozen/provenance.json").read_bytes() == before


SHOW = "dvc exp show --only-changed --drop '^artifacts/[^s]'"  # docs/using.md; tests/architecture compares


def test_the_command_for_experiments_shows_what_differs(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the columns that a person compares, not those of all params and files."""
    assert SHOW in (ROOT / "docs/using.md").read_text()
    subprocess.run(["git", "init", "--quiet"], check=True)
    dvc("config", "--unset", "core.no_scm")
    subprocess.run(["git", "add", "dvc.yaml", "dvc.lock", "params.yaml", ".dvc/config"], check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", *author, "commit", "--quiet", "--message", "as it ran"], check=True)
    change(repository / "params.yaml", "finetune", "headlines", "learning_rate", value=0.0123)
    capsys.readouterr()

    def header(*options: str) -> list[str]:
        dvc("exp", "show", "--csv", *options)
        return capsys.readouterr().out.splitlines()[0].split(",")

    every = header()
    assert len(every) < 150, "four scores a run, and one file of code a stage"
    assert len([name for name in every if "artifacts/scores/headlines.json" in name]) == 4
    assert header(*shlex.split(SHOW)[3:]) == ["rev", "Created", "finetune.headlines.learning_rate"]


def dvc(*words: str) -> None:
    """A command of DVC in this process, whose import takes seconds."""
    assert dvc_command([*words]) == 0


@pytest.mark.parametrize("target", ["finetune@headlines", pytest.param("export@headlines", marks=pytest.mark.soak)])
def test_dvc_repro_writes_the_same_lock(target: str, repository: Path) -> None:
    """From nothing, in another folder, one stage after the other; and it has nothing to do here.

    The way to one model is enough; `benchmarks/graph.py` compares the whole of the quickstart's.
    """
    dvc = [sys.executable, "-m", "dvc"]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    assert stale() == set()
    assert "didn't change" in subprocess.run([*dvc, "repro"], check=True, capture_output=True, text=True).stdout
    other = repository.parent / "other"
    shutil.copytree(
        repository, other, symlinks=True, ignore=shutil.ignore_patterns("artifacts", "state", ".dvc", "dvc.lock")
    )
    subprocess.run([*dvc, "init", "-q", "--no-scm"], cwd=other, check=True)
    subprocess.run([*dvc, "repro", "-q", target], cwd=other, env=environment, check=True)
    theirs, ours = (yaml.safe_load((place / "dvc.lock").read_text())["stages"] for place in (other, repository))
    assert len(theirs) >= 8
    assert theirs == {name: ours[name] for name in theirs}


def test_a_clone_pulls_what_was_made_and_has_nothing_to_run(repository: Path) -> None:
    """What no remote keeps, such as a stage's seconds, is asked of none."""
    remote, clone = str(repository.parent / "remote"), repository.parent / "clone"
    add_remote(remote)
    with Repo() as repo:
        repo.push()
    shutil.copytree(repository, clone, symlinks=True, ignore=shutil.ignore_patterns("artifacts", "state", ".dvc"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(clone)
        Repo.init(no_scm=True).close()
        add_remote(remote)
        with Repo() as repo:
            repo.pull()
        assert stale() == set()
        assert executor.run([]) == []
        with Path("pipelines/stages/export.py").open("a") as file:
            file.write("MORE = 1\n")
        assert "  pipelines/stages/export.py: modified (pipelines/stages/export.py)" in why.why("export@headlines")
    whole = Path("artifacts/models/headlines")
    assert provenance.digest(clone / whole) == provenance.digest(repository / whole)


def add_remote(url: str) -> None:
    dvc("remote", "add", "-q", "-d", "kept", url)


def test_a_killed_stage_goes_on_where_it_was(repository: Path) -> None:
    change(repository / "params.yaml", "pretrain", "tiny-ja", "epochs", value=6)
    change(repository / "params.yaml", "resources", "checkpoint_minutes", value=1e-9)
    stage = ("pipelines.stages.pretrain", "tiny-ja")
    checkpoint = repository / "state/checkpoints/pretrain/tiny-ja/fit-1.pt"
    shutil.rmtree("artifacts/models/tiny-ja")
    with forked.started(*stage) as process:
        process.until(checkpoint.exists)
    assert checkpoint.exists()
    assert not (repository / "artifacts/models/tiny-ja").exists()
    assert executor.run(["pretrain@tiny-ja"]) == ["pretrain@tiny-ja"]
    resumed = (repository / "artifacts/models/tiny-ja/model.safetensors").read_bytes()
    assert not checkpoint.exists()
    again = forked.run(*stage)
    assert again.returncode == 0, again.stderr
    assert (repository / "artifacts/models/tiny-ja/model.safetensors").read_bytes() == resumed


def test_a_stage_fails_in_one_sentence_without_a_traceback(workspace: Path) -> None:
    unknown = forked.run("pipelines.stages.prepare", "headline")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith(
        "prepare headline: error: params.yaml: prepare: no entry 'headline' (did you mean 'headlines'?)"
    )
    assert "Traceback" in forked.run("pipelines.stages.prepare", "headline", "--debug").stderr
    missing = forked.run("pipelines.stages.prepare", "headlines")
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1
    assert "artifacts/raw/livedoor-samples: no such file or folder" in missing.stderr
    Path("samples/livedoor/ldcc-samples.tar.gz").write_bytes(b"not the archive")
    wrong = forked.run("pipelines.stages.ingest", "livedoor-samples")
    assert wrong.returncode == 1
    assert "sha256" in wrong.stderr
    assert not Path("artifacts/raw").exists()


def test_an_entry_name_with_a_shell_command_is_not_run(workspace: Path) -> None:
    sections = ("prepare", "build_vocab", "import_weights", "encode", "pretrain", "finetune", "baseline", "compress")
    empty = "".join(f"{name}: {{}}\n" for name in (*sections, "evaluate", "export"))
    Path("params.yaml").write_text("ingest: {'x; touch F #': {corpus: codah}}\n" + empty)
    Repo.init(no_scm=True).close()
    for command in (("dvc", "repro"), ("flows.cli", "run"), ("flows.cli", "check")):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "'x; touch F #' is not a valid name" in done.stderr
        assert not Path("F").exists()
