"""bertline doctor: each check fails for real, and names the command that mends it."""

import json
import os
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import ipadic
import pytest

from flows.local import checkup, diagnosis, prefect_settings, reachable, service_ports
from flows.local.diagnosis import Finding
from pipelines.core.errors import UsageError
from pipelines.graph import checking, import_closure
from pipelines.text import mecab
from tests.support import commands, health_answers
from tests.support.places import ROOT

TORCH = metadata.version("torch")


def states(*findings: Finding) -> list[str]:
    assert all(bool(finding.mend) == (finding.state != "ok") for finding in findings)
    return [finding.state for finding in findings]


def test_python_cores_memory_disk_and_gpu_have_limits() -> None:
    assert states(diagnosis.python(), diagnosis.python((3, 10, 9)), diagnosis.python((3, 15, 0))) == [
        "ok", "problem", "problem",
    ]  # fmt: skip
    assert states(diagnosis.cores(1), diagnosis.cores(2)) == ["warning", "ok"]
    limits = {"none": 100, "little": 1000}
    for check in (diagnosis.disk, diagnosis.memory):
        assert states(check(99, **limits), check(100, **limits), check(1000, **limits)) == ["problem", "warning", "ok"]
    cards = ["NVIDIA H100"]
    assert states(
        diagnosis.gpu([], "2.13.0+cpu"), diagnosis.gpu(cards, "2.13.0+cpu"), diagnosis.gpu(cards, "2.13.0")
    ) == ["ok", "warning", "ok"]


def test_a_package_of_another_version_or_none_is_found() -> None:
    lock = "pyyaml==0.1\nno-such-package==1.0\nnumpy==99 ; python_version < '3'\n# a comment\n"
    finding = diagnosis.pins([lock], metadata.version)
    assert states(finding) == ["problem"]
    assert finding.says == f"pyyaml is {metadata.version('pyyaml')}, not ==0.1; no-such-package is missing"
    assert (
        diagnosis.pins([f"pyyaml=={metadata.version('pyyaml')}"], metadata.version).says
        == "1 packages are as in the locks"
    )
    assert diagnosis.pins([], metadata.version).says == "not checked: this installation has no locks beside it"


def test_the_locks_are_those_of_the_installation_in_any_folder(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkup.locks() == [ROOT / name for name in diagnosis.LOCKS if "cuda" not in name or "+cpu" not in TORCH]
    monkeypatch.setattr(import_closure, "ROOT", checkout)
    assert checkup.locks() == []


def test_what_a_package_needs_is_missing_or_another(tmp_path: Path) -> None:
    for name, needs in (("one", ["two>=2", "three", "four; extra == 'more'"]), ("two", [])):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
    finding = diagnosis.unmet(metadata.distributions(path=[str(tmp_path)]))
    assert (finding.state, finding.says) == ("problem", "one needs two>=2, not 1.0; one needs three, which is missing")
    assert states(diagnosis.unmet([])) == ["ok"]


def test_a_busy_port_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        assert states(diagnosis.port("prefect", number, False, "x"), diagnosis.port("prefect", number, True, "x")) == [
            "warning", "ok",
        ]  # fmt: skip
    assert states(diagnosis.port("prefect", number, False, "x")) == ["ok"]


def test_the_service_itself_is_no_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (None, tmp_path):
        with health_answers.answered(certificate_folder=folder) as port:
            assert reachable.healthy(port)
    for body in (b"OK", b"[]", b"{"):
        with health_answers.answered(body) as port:
            assert not reachable.healthy(port)
    assert not reachable.healthy(port), "nothing listens there any more"
    monkeypatch.setattr(reachable, "healthy", lambda port: port == 8000)
    (finding,) = checkup.served()
    assert (finding.state, finding.says) == ("ok", "our bertline serve listens there")


def test_a_dictionary_that_is_missing_or_damaged_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(diagnosis.dictionary("ipadic", mecab.tagger("ipadic"))) == ["ok"]
    monkeypatch.setattr(ipadic, "DICDIR", str(tmp_path))
    finding = diagnosis.dictionary("ipadic", lambda text: mecab.tagger.__wrapped__("ipadic")(text))
    assert states(finding) == ["problem"]
    monkeypatch.setitem(mecab.DICTIONARIES, "none", "no_such_dictionary")
    finding = diagnosis.dictionary("none", lambda text: mecab.tagger.__wrapped__("none")(text))
    assert "the package no_such_dictionary is not installed" in finding.says


def test_mirror_remotes_and_git(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(*map(diagnosis.mirror, ("", str(checkout), "nowhere"))) == ["ok", "ok", "problem"]
    addresses = (f"file://{checkout}", "file:///nowhere", "https://mirror.example.com/corpora")
    assert states(*map(diagnosis.mirror, addresses)) == ["ok", "problem", "ok"]
    Path(".dvc").mkdir()
    Path("there").mkdir()
    lines = "[core]\n    remote = far\n['remote \"near\"']\n    url = ../there\n['remote \"far\"']\n    url = ../gone\n"
    Path(".dvc/config").write_text(lines + "['remote \"s3\"']\n    url = s3://bucket/my%20data\n")
    remotes = {remote[0]: diagnosis.remote(*remote) for remote in checkup.remotes()}
    assert {name: finding.state for name, finding in remotes.items()} == {"near": "ok", "far": "problem", "s3": "ok"}
    assert remotes["far"].mend.startswith("dvc remote modify --local far url FOLDER ")  # a clone may lie elsewhere
    assert diagnosis.git(checkout).says.startswith("no git repository: versions will not name a commit")
    with monkeypatch.context() as patch:
        patch.setenv("BERTLINE_COMMIT", "abc-dirty")
        assert diagnosis.git(checkout).says == "no git repository; this image was made of commit abc-dirty"
    subprocess.run(["git", "init", "-q"], check=True)
    assert "files differ from the commit, such as " in diagnosis.git(checkout).says


def test_a_checkout_of_another_user_is_no_lack_of_a_repository(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    finding = diagnosis.git(Path())
    assert (finding.state, finding.says) == ("warning", "git refuses this folder, which another user owns")
    assert finding.mend == f"git config --global --add safe.directory {checkout.resolve()}"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (b"<<<<<<< HEAD\n[core]\n", "File contains no section headers"),
        (b"['remote \"far\"']\nurl = a\n['remote \"far\"']\nurl = b\n", "already exists"),
        ("[core]\n# 遠\n".encode("cp932"), "can't decode byte"),
    ],
)
def test_a_configuration_of_dvc_that_cannot_be_read_is_a_problem_beside_others(
    checkout: Path, config: bytes, says: str
) -> None:
    Path(".dvc").mkdir()
    Path(".dvc/config").write_bytes(config)
    findings = {finding.check: finding for finding in checkup.findings()}
    assert (findings["remotes"].state, findings["git"].state) == ("problem", "warning")
    assert findings["remotes"].says.startswith(".dvc/config: ")
    assert says in findings["remotes"].says


def test_a_lock_that_is_not_one_is_a_problem_beside_others(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "requirements.lock").write_text("torch=2.0\n")
    monkeypatch.setattr(import_closure, "ROOT", checkout)
    findings = {finding.check: finding for finding in checkup.findings()}
    assert (findings["pins"].state, findings["git"].state) == ("problem", "warning")
    assert "torch=2.0" in findings["pins"].says


@pytest.mark.parametrize("text", ["abc", "99999", "0", "", "-1", "４２００"])
def test_what_is_no_port_is_a_problem_and_refused(text: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_PREFECT_PORT", text)
    with pytest.raises(UsageError, match=r"BERTLINE_PREFECT_PORT: .* is no port; write a number from 1 to 65535"):
        service_ports.numbers()
    findings = {finding.check: finding for finding in checkup.findings()}
    assert findings["ports"].says.startswith("BERTLINE_PREFECT_PORT: ")
    assert "port 8000" in findings
    monkeypatch.setenv("BERTLINE_PREFECT_PORT", "5000")
    with pytest.raises(UsageError, match="BERTLINE_PREFECT_PORT and BERTLINE_MLFLOW_PORT: both are 5000"):
        service_ports.numbers()
    monkeypatch.setenv("BERTLINE_MLFLOW_PORT", "5001")
    assert service_ports.numbers() == {"prefect": 5000, "mlflow": 5001}


def test_an_encoding_that_is_not_utf_8_is_found() -> None:
    script = "import sys; print(sys.stdout.encoding)"
    environment = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    said = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert states(diagnosis.encoding({"output": said.stdout.strip()}), diagnosis.encoding({"output": "UTF-8"})) == [
        "problem", "ok",
    ]  # fmt: skip


def test_a_server_that_does_not_answer_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
    assert not checkup.answers(f"http://127.0.0.1:{number}/health")
    assert states(diagnosis.server("mlflow", True, False), diagnosis.server("mlflow", False, False)) == [
        "problem",
        "ok",
    ]


def test_a_worker_that_has_ended_is_found(checkout: Path) -> None:
    def worker() -> Finding:
        return next(finding for finding in checkup.started() if finding.check == "worker")

    assert (worker().state, worker().says) == ("ok", "not started")
    prefect_settings.PIDS.mkdir(parents=True)
    record = {"pid": os.getpid(), "began": prefect_settings.began(os.getpid()), "address": ""}
    (prefect_settings.PIDS / "worker").write_text(json.dumps(record))
    assert states(worker()) == ["ok"]
    (prefect_settings.PIDS / "worker").write_text(json.dumps(record | {"began": 0}))
    assert (worker().state, worker().mend) == ("problem", "bertline up")


def test_the_command_prints_a_row_each_and_fails_if_there_is_a_problem(checkout: Path) -> None:
    Path("params.yaml").write_text("finetun: {}\n")
    assert states(diagnosis.entries(checking.check)) == ["problem"]
    text = commands.bertline("doctor", BERTLINE_MIRROR="nowhere").require(1).out
    assert "problem  mirror" in text
    assert "-> unset BERTLINE_MIRROR" in text
    rows = json.loads(commands.bertline("doctor --json", BERTLINE_MIRROR="nowhere").require(1).out)
    problems = {row["check"]: row["mend"] for row in rows if row["state"] == "problem"}
    assert problems == {"mirror": "unset BERTLINE_MIRROR", "params.yaml": "bertline check"}
    Path("params.yaml").write_text("{}\n")
    commands.bertline("doctor").require(0)
