"""The services that benchmarks/serve.py compares with: what a user would write in ten lines, and the leanest one.

    MODEL=FOLDER uvicorn --factory serve_peers:plain --app-dir benchmarks
    MODEL=FOLDER uvicorn --factory serve_peers:lean --app-dir benchmarks

Both take the body of `POST /predict` and answer with labels and scores. Neither has limits, keys, deadlines, counts or
other protocols, and neither refuses a request.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pipelines.inference.predictor import Predictor

THREADS, BATCH = 2, 16


class Row(BaseModel):
    text: str


class Rows(BaseModel):
    rows: list[Row]


def answers(predictor: Predictor, texts: list[str]) -> list[dict[str, Any]]:
    predictions = predictor.predict(pa.table({"text": texts})).to_pylist()
    return [{"label": row["label"], "score": row["score"]} for row in predictions]


def plain() -> FastAPI:
    """A thread for each request, and one call of the model for each."""
    predictor, api = Predictor.load(Path(os.environ["MODEL"])), FastAPI()

    @api.get("/health")
    def health() -> dict[str, bool]:
        return {"ok": True}

    @api.post("/predict")
    def predict(request: Rows) -> dict[str, Any]:
        return {"predictions": answers(predictor, [row.text for row in request.rows])}

    return api


def lean() -> Starlette:
    """One process, requests batched as they come, ONNX Runtime without spinning threads."""
    predictor = Predictor.load(Path(os.environ["MODEL"]), threads=1)
    pool, queue = ThreadPoolExecutor(THREADS), asyncio.Queue[tuple[list[str], asyncio.Future[Any]]]()

    async def worker() -> None:
        while True:
            waiting = [await queue.get()]
            while not queue.empty() and len(waiting) < BATCH:
                waiting.append(queue.get_nowait())
            texts = [text for texts, _ in waiting for text in texts]
            rows = await asyncio.get_running_loop().run_in_executor(pool, answers, predictor, texts)
            first = 0
            for texts, answer in waiting:
                if not answer.done():
                    answer.set_result(rows[first : first + len(texts)])
                first += len(texts)

    async def predict(request: Request) -> Response:
        texts = [row["text"] for row in json.loads(await request.body())["rows"]]
        answer = asyncio.get_running_loop().create_future()
        await queue.put((texts, answer))
        return Response(json.dumps({"predictions": await answer}, ensure_ascii=False), media_type="application/json")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        workers = [asyncio.create_task(worker()) for _ in range(THREADS)]
        yield
        for task in workers:
            task.cancel()

    async def health(_: Request) -> Response:
        return Response("{}", media_type="application/json")

    routes = [Route("/health", health), Route("/predict", predict, methods=["POST"])]
    return Starlette(routes=routes, lifespan=lifespan)
