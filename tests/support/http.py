"""The service's application in this process, without a server."""

from fastapi.testclient import TestClient

from pipelines.inference.predictor import Predictor
from pipelines.serving.app import application
from pipelines.tracking.registry import Version
from tests.support import served


def client(version: Version, predictor: Predictor) -> TestClient:
    """A client of a service with this version and predictor."""
    return TestClient(application(served.of_predictors({version: predictor})))
