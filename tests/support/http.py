"""The HTTP service's route and handlers in this process, without Ray."""

from fastapi import FastAPI
from fastapi.testclient import TestClient

from pipelines.inference.predictor import Predictor
from pipelines.serving import app, schemas
from pipelines.tracking.registry import Version


def client(version: Version, predictor: Predictor) -> TestClient:
    """A client of a service with this version and predictor."""
    api = FastAPI(exception_handlers=app.api.exception_handlers)

    @api.post("/predict", response_model_exclude_none=True)
    def predict(request: schemas.Request) -> schemas.Answer:
        return app.answer(version, predictor, request)

    return TestClient(api)
