"""Models from folders behind the service's application, without a registry."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flows.local.http_service import http_server
from pipelines.core.ports import free_port
from pipelines.inference.predictor import Predictor
from pipelines.serving.admission import Part
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.keys import Keys
from pipelines.serving.model_threads import ModelThreads
from pipelines.serving.row_batcher import RowBatcher
from pipelines.serving.served_model import ServedModel
from pipelines.tracking import registry

WORKERS = 2
FULL = 10**12  # far more characters than any model reads in five seconds


def catalogue(models: dict[str, Path]) -> Catalogue:
    """A catalogue of the model folders, each as version 1 of its name."""
    predictors = {name: Predictor.load(folder, threads=1) for name, folder in models.items()}
    return of_predictors({registry.Version(name, 1, {}): predictor for name, predictor in predictors.items()})


def of_predictors(models: Mapping[registry.Version, Predictor]) -> Catalogue:
    """A catalogue of versions, each with its predictor."""
    threads, opened = ModelThreads(WORKERS), Catalogue()
    opened._models = {
        version.name: ServedModel(version.name, version, predictor, RowBatcher(predictor, threads), 0.0)
        for version, predictor in models.items()
    }
    return opened


@contextmanager
def serving(
    models: Catalogue,
    keys: Keys | None = None,
    hosts: tuple[str, ...] = (),
    log_format: str = "off",
    origins: tuple[str, ...] = (),
) -> Iterator[str]:
    """The address of the service with these models, until the block ends."""
    port = free_port()
    server = http_server(application(models, keys, hosts, log_format, None, origins), port=port)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        models.close()


@contextmanager
def filled(model: ServedModel, key: str = "") -> Iterator[None]:
    """The model with a full queue until the block ends: rows of `key` are in it, and no worker begins."""
    queue = model.batcher.queue
    part = Part(0.0, -1, rows=None, cost=FULL, answer=None, key=key)
    queue._parts.append(part)
    queue.waiting += FULL
    try:
        yield
    finally:
        queue._parts.remove(part)
        queue.waiting -= FULL
