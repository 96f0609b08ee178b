"""docs/serving.md walked through: each service that the page starts, its keys, canary, metrics, page and rollback."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow
import pytest

from flows.rollback import rollback
from pipelines.core.ports import free_port
from pipelines.tracking import ledger, registry
from tests.support import exported, forked, raw_http, stores, tiny
from tests.support.places import CODE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PAGE = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
HERE = "http://127.0.0.1:8000"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
COMMANDS = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines() if "bertline" in line]
CURLS = [line for language, text in BLOCKS if language == "sh" for line in re.findall(r"curl .*?(?<!\\)\n", text, re.S)]
KEYS = next(text for language, text in BLOCKS if language == "text" and "predict,admin" in text)
SHOP, OPERATOR = (line.split()[1] for line in KEYS.splitlines())
# the names that each of the page's services has
SERVED = [["headlines"], ["headlines@challenger", "entailment"], ["headlines@3"], ["mini-ja", "mini-ja.fill_mask"]]
SERVED += [["headlines"]] * 4


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with four versions of `headlines`, of which the third is champion, and `entailment` of another kind."""
    folder, models = tmp_path_factory.mktemp("walk"), exported.models(tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        stores.place_in(folder)
        entries = "{headlines: {run: tiny}, entailment: {run: tiny}}"
        (folder / "params.yaml").write_text(tiny.PARAMS.replace("{tiny: {run: tiny}}", entries))
        (folder / "encoders").symlink_to(ROOT / "encoders")
        for name, kind, count in (("headlines", "single", 4), ("entailment", "pair", 1)):
            row = exported.ROWS[kind][0]
            for _ in range(count):
                registry.register(name, models / kind, CODE, kind, row, {"run": "tiny"}, models / f"{kind}-onnx")
            for number in {1, min(3, count)}:
                ledger.append(name, ledger.read(name), "promote", number, "a test")
        yield folder
    mlflow.set_tracking_uri(None)


@contextmanager
def started(place: Path, command: str) -> Iterator[str]:
    """The service that a command of the page starts, at another port."""
    program, *words = shlex.split(command, comments=True)
    assert program == "bertline"
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        with forked.started("flows.cli", *words, "--port", str(port), "--log-format", "off") as process:
            process.until(lambda: "Ctrl-C" in process.printed())
            yield f"http://127.0.0.1:{port}"


def test_the_page_starts_eight_services() -> None:
    assert len(COMMANDS) == len(SERVED) == 8
    assert len(CURLS) == 3


@pytest.mark.parametrize("number", [1, 5, 7, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 3, 4, 6))])
def test_each_command_of_the_page_starts_a_service(place: Path, number: int) -> None:
    with started(place, COMMANDS[number]) as address:
        models = raw_http.get(address, "/models").json()
        assert [model["name"] for model in models] == SERVED[number]
        beside = {side for model in models for side in ("canary", "shadow") if model[side]}
        assert beside == {side for side in ("canary", "shadow") if f"--{side}" in COMMANDS[number]}


def test_two_models_of_two_kinds_with_keys_metrics_a_canary_and_a_rollback(place: Path) -> None:
    (place / "keys.txt").write_text(KEYS)
    (place / "keys.txt").chmod(0o600)

    def page_curl(number: int, address: str, key: str) -> str:
        command = CURLS[number].replace(HERE, address).replace("Bearer KEY", f"Bearer {key}")
        if "Bearer" not in command:
            command = command.replace("curl ", f"curl -H 'Authorization: Bearer {key}' ")
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout

    with started(place, f"{COMMANDS[0].split('#')[0]} entailment --keys keys.txt") as address:
        admin = {"Authorization": f"Bearer {OPERATOR}"}
        assert "API key" in page_curl(0, address, "none"), "the key is missing"
        assert '"version":3' in page_curl(0, address, SHOP)
        pair = {"rows": [exported.ROWS["pair"][0]]}
        assert raw_http.post(address, "/predict/entailment", raw_http.encoded(pair), {"X-API-Key": SHOP}).status == 200
        assert "scope" in page_curl(1, address, SHOP), "a canary needs the scope admin"
        assert '"canary":{"version":4,"share":0.05,"by":"random"' in page_curl(1, address, OPERATOR)
        assert page_curl(2, address, OPERATOR) == ""
        assert raw_http.get(address, "/models/headlines", admin).json()["canary"] is None
        assert "bertline_requests_total{" in raw_http.get(address, "/metrics", admin).body.decode()
        assert raw_http.get(address, "/").headers["content-type"].startswith("text/html")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place)
            assert rollback("headlines").version == 1
        assert raw_http.post(address, "/models/headlines/refresh", b"", admin).json()["version"] == 1
        assert '"version":1' in page_curl(0, address, SHOP)
