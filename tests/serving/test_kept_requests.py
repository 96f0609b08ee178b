"""`bertline serve` with --keep-requests and --keep-texts: what each stores, and that without them nothing is."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pq
import pytest

from flows.cli import services
from flows.local import http_service
from pipelines.core.ports import free_port
from tests.support import commands, raw_http, tiny

FOLDER = Path("state/requests")
ROWS = {"rows": [{"text": "秘密の文"}]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.classifier(tmp_path_factory.mktemp("kept") / "tiny")


@pytest.mark.parametrize("options", [[], ["--keep-requests", "3"], ["--keep-requests", "3", "--keep-texts"]])
def test_requests_are_stored_for_days_and_texts_by_choice(
    options: list[str], model: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command runs in this process, and ends after one request in place of waiting for a signal."""
    days: list[int] = []

    class Store(http_service.RequestStore):
        def __init__(self, folder: Path, days_kept: int, texts: bool) -> None:
            days.append(days_kept)
            super().__init__(folder, days_kept, texts)

    def asked_once(names: Iterable[str], address: str) -> NoReturn:
        assert raw_http.post(address, "/predict/tiny", json.dumps(ROWS).encode()).status == 200
        raise SystemExit(0)

    monkeypatch.setattr(http_service, "RequestStore", Store)
    monkeypatch.setattr(services, "_wait", asked_once)
    monkeypatch.setattr(services.signal, "signal", lambda *_: None)
    commands.bertline("serve", f"tiny={model}", "--port", str(free_port()), *options).require(0)
    assert days == [3] * bool(options)
    assert FOLDER.exists() == bool(options)
    rows = [row for file in FOLDER.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    texts = [json.loads(row["row"]) if row["row"] else None for row in rows]
    assert texts == [ROWS["rows"][0] if "--keep-texts" in options else None] * bool(options)
    assert ("秘密" in json.dumps(rows, default=str, ensure_ascii=False)) == ("--keep-texts" in options)
