"""docs/serving.md: its examples run, by curl, in Python and in JavaScript, for every kind and protocol."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pipelines.core import schema
from pipelines.inference import embedding, fill_mask
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from tests.support import compressed, kinds, raw_http, served, tiny
from tests.support.browser import Tab
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
HERE = "http://127.0.0.1:8000"
ROWS = re.findall(r"^\| (\w+) \| `(\{.*\})` \| (.*) \|$", PAGE, re.M)
BODIES = re.findall(r"^\| .* \| `(/\S+)` \| `(\{.*\})` \|$", PAGE, re.M)
ENCODERS = {embedding.KIND: "mini-ja", fill_mask.KIND: "mini-ja.fill_mask"}
REQUESTS = [(path, json.loads(body)) for path, body in BODIES] + [
    (f"/predict/{ENCODERS.get(kind, kind)}", {"rows": [json.loads(row)]}) for kind, row, _ in ROWS
]


def block(language: str) -> str:
    """The first example of the page in a language."""
    found = re.search(rf"^```{language}\n((?:(?!```).)*predict/headlines.*?)^```$", PAGE, re.M | re.S)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place, models = tmp_path_factory.mktemp("models"), Catalogue()
    folders = {kind: compressed.teacher("bert", kind, place / kind) for kind in kinds.TASKS}
    folders |= {"headlines": folders["single"], "mini-ja": tiny.encoder(place / "encoder")}
    models.serve({name: Source(name, folder=folder) for name, folder in folders.items()})
    with served.serving(models) as address:
        yield address


@pytest.fixture(scope="module")
def answers(address: str) -> list[Any]:
    """The answers to the page's requests."""
    found = [raw_http.post(address, path, raw_http.encoded(body)) for path, body in REQUESTS]
    assert [answer for answer in found if answer.status != 200] == []
    return [answer.json() for answer in found]


def test_the_tables_have_every_kind_and_protocol(answers: list[Any]) -> None:
    assert {kind for kind, _, _ in ROWS} == {*kinds.TASKS, *ENCODERS} == set(schema.INPUTS) & {*kinds.TASKS, *ENCODERS}
    assert [path.split("/")[1] for path, _ in BODIES] == ["predict", "hf", "invocations", "v2", "v1"]
    for (kind, _, fields), answer in zip(ROWS, answers[len(BODIES) :], strict=True):
        assert sorted(re.findall("`(\\w+)`", fields)) == sorted(answer["predictions"][0]), kind


def test_curl(address: str, answers: list[Any], tmp_path: Path) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is not installed on this machine")
    command = block("sh")
    head, data = command.replace(HERE, address).split("  -d '")
    for (path, body), expected in zip(REQUESTS, answers, strict=True):
        mine = f"{head.replace('/predict/headlines', path)}  -d '{json.dumps(body, ensure_ascii=False)}'"
        done = subprocess.run(["bash", "-c", mine], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == expected
    done = subprocess.run(["bash", "-c", f"{head}  -d '{data}"], capture_output=True, text=True, check=True)
    assert list(json.loads(done.stdout)["predictions"][0]) == ["label", "score"]


def test_python(address: str, answers: list[Any]) -> None:
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as printed:
        exec(block("python").replace(HERE, address), names)
    assert "'label': " in printed.getvalue()
    assert [names["ask"](path, body) for path, body in REQUESTS] == answers


CLIENTS = [code for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "def ask" not in code]


@pytest.mark.parametrize("code", CLIENTS, ids=lambda code: re.findall(r"(?:from|import) (\w+)", code)[-2])
def test_clients(address: str, code: str) -> None:
    """tritonclient does not fit this project's pins, and openai is none: BERTLINE_CLIENTS names a Python with both."""
    python = os.environ.get("BERTLINE_CLIENTS", "") if re.search("tritonclient|openai", code) else sys.executable
    if not python:
        pytest.skip("BERTLINE_CLIENTS names no Python with tritonclient and openai")
    code = code.replace(HERE.removeprefix("http://"), address.removeprefix("http://"))
    online = os.environ | {"HF_HUB_OFFLINE": "0"}
    client = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, env=online)
    assert client.returncode == 0, client.stderr
    assert re.search(r"label|score|^\[-?0\.|^\[b'\w+'\] \[0\.", client.stdout), client.stdout


def test_javascript(address: str, answers: list[Any], open_tab: Callable[[], Tab]) -> None:
    page = open_tab()
    page.open(address)
    function, call = block("js").replace(HERE, address).split("\n\n")
    log = "let text; const console = {log: (it) => text = it};"
    printed = page.value(f"(async () => {{ {function}\n {log} {call}\n return text }})()")
    assert list(printed["predictions"][0]) == ["label", "score"]
    each = "for (const [path, body] of requests) found.push(await ask(path, body));"
    known = f"const found = []; const requests = {json.dumps(REQUESTS)};"
    assert page.value(f"(async () => {{ {function}\n {known} {each} return found }})()") == answers
    failed = f"(async () => {{ {function}\n return ask('/predict/none', {{}}).catch((error) => error.message) }})()"
    assert "no model" in page.value(failed)
