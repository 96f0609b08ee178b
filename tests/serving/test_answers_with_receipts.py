"""The service's answers have the receipts that a job gives the same rows, for every kind of task."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.local import http_service
from pipelines.core import provenance, schema
from pipelines.core.errors import UsageError
from pipelines.inference import receipt_keys
from pipelines.inference.predictor import Predictor
from pipelines.inference.receipt_keys import ReceiptKeys
from pipelines.inference.receipts import Signer
from pipelines.scoring import job, receipt_check
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.job_record import Job
from pipelines.scoring.partition_scoring import PieceScorer
from pipelines.scoring.pieces import Piece
from pipelines.serving.model_sources import Source
from tests.support import champion, exported, kinds, served

pytestmark = pytest.mark.slow


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with one key."""
    receipt_keys.make(tmp_path / "receipts.key")
    return tmp_path / "receipts.key"


def from_a_job(folder: Path, name: str, rows: list[dict[str, Any]], signer: Signer) -> pa.Table:
    """The rows as a job of version 1 scores them."""
    predictor = Predictor.load(folder)
    kind = predictor.task.kind
    inputs = pa.Table.from_pylist(rows).cast(pa.schema([schema.ROWS[kind].field(n) for n in schema.INPUTS[kind]]))
    record = Job(1, "in", name, 1, provenance.content_digest(folder), "", 10**6, [])
    piece = Piece(inputs, inputs, np.arange(len(rows)), [])
    return PieceScorer(predictor, record, signer=signer)(piece)


@pytest.mark.parametrize("kind", kinds.TASKS)
def test_a_row_has_the_same_receipt_online_and_in_a_job(
    kind: str, keys: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, rows = exported.models(tmp_path_factory) / f"{kind}-onnx", exported.ROWS[kind]
    signer = Signer(ReceiptKeys.read(keys).current, "a commit")
    catalogue = served.catalogue({kind: folder})
    catalogue._models = {kind: replace(catalogue[kind], digest=provenance.content_digest(folder))}
    catalogue.signer = signer
    with served.serving(catalogue) as address, ThreadPoolExecutor() as pool:
        bodies = [{"rows": rows[::-1]}, *({"rows": [row], "scores": True} for row in rows)]
        whole, *alone = pool.map(lambda body: http_service.ask(address, f"/predict/{kind}", body), bodies)
    answers = from_a_job(folder, kind, rows, signer)
    wanted = answers.column("receipt").to_pylist()
    assert [one["predictions"][0]["receipt"] for one in alone] == wanted
    assert [one["receipt"] for one in whole["predictions"]] == wanted[::-1]
    assert len({receipt["hmac"] for receipt in wanted}) == len(rows)
    pq.write_table(answers, tmp_path / "answers.parquet")
    checked = receipt_check.check(Folder(tmp_path / "answers.parquet"), ReceiptKeys.read(keys))
    assert (checked.findings, checked.rows) == ([], len(rows))


def test_the_champion_signs_as_its_job_does(
    checkout: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    champion.registered(checkout, exported.classifier(tmp_path_factory))
    (checkout / "in").mkdir()
    pq.write_table(pa.table({"text": champion.TEXTS}), checkout / "in/a.parquet")
    sources = {"tiny": Source("tiny")}
    signer = http_service.signer(keys, sources)
    assert signer
    options = job.Options(receipts=str(keys), commit=signer.commit)
    job.run(checkout / "in", checkout / "out", "tiny", "champion", options)
    with http_service.serving(sources, http_service.Settings(signer=signer)) as address:
        body = {"rows": [{"text": text} for text in champion.TEXTS]}
        online = http_service.ask(address, "/predict/tiny", body)["predictions"]
    rows = pq.read_table(checkout / "out/a.parquet").to_pylist()
    assert [row["receipt"] for row in rows] == [row["receipt"] for row in online]
    with pytest.raises(UsageError, match="--receipts: f is a folder, and receipts name a version; register the model"):
        http_service.signer(keys, {"f": Source("f", folder=checkout)})
    with pytest.raises(UsageError, match="--receipts: replicas in Ray Serve sign none"):
        http_service.serving_in_ray(sources, http_service.Settings(signer=signer)).__enter__()
    mlflow.set_tracking_uri(None)
