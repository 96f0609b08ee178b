"""The service's application in this process, without a server."""

from concurrent.futures import ThreadPoolExecutor

from fastapi.testclient import TestClient

from pipelines.inference.predictor import Predictor
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.row_batcher import RowBatcher
from pipelines.serving.served_model import ServedModel
from pipelines.tracking.registry import Version


def client(version: Version, predictor: Predictor) -> TestClient:
    """A client of a service with this version and predictor."""
    catalogue = Catalogue()
    batcher = RowBatcher(predictor, ThreadPoolExecutor(1), 1)
    catalogue._models = {version.name: ServedModel(version.name, version, predictor, batcher, 0.0)}
    return TestClient(application(catalogue))
