"""The time that the service's event loop spends on a small request and on a refusal, in process, without the model.

Against FastAPI with an endpoint that parses the same body and answers the same. Where the loop is busy, it is what
bounds the service: the model runs in other threads.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
import orjson
import serve
import serve_peers
from fastapi import FastAPI

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source

BODY = orjson.dumps({"rows": [{"text": "新型スマートフォンの発売開始、五色展開で登場"}]})
ANSWER = {"label": "class-1", "score": 0.5, "scores": [0.1] * len(serve.LABELS)}
FULL = 10**12  # characters that wait


async def ask(app: Any, path: str) -> int:
    """Send one request as uvicorn does; returns the status."""
    headers = [(b"host", b"localhost"), (b"content-length", b"%d" % len(BODY)), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1), "root_path": "", "asgi": {"version": "3.0"}, "state": {},
    }  # fmt: skip
    sent: list[Any] = []

    left = [BODY]

    async def receive() -> Any:
        if not left:
            await asyncio.Event().wait()  # the client stays
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"])


def bare() -> FastAPI:
    """FastAPI, which parses the body and answers."""
    api = FastAPI()

    @api.post("/predict")
    async def predict(request: serve_peers.Rows) -> dict[str, Any]:
        return {"predictions": [{"label": ANSWER["label"], "score": ANSWER["score"]} for _ in request.rows]}

    return api


def of_loop(app: Any, path: str, count: int, status: int = 200) -> float:
    """Processor seconds of one request."""

    async def several() -> None:
        for _ in range(count):
            assert await ask(app, path) == status

    start = time.process_time()
    asyncio.run(several())
    return (time.process_time() - start) / count


def main() -> None:
    options = harness.arguments(__doc__ or "")
    rounds, count = (7, 300) if options.quick else (15, 1000)
    times: dict[str, list[float]] = {"FastAPI": [], "a request": [], "a refusal": []}
    with tempfile.TemporaryDirectory() as name:
        catalogue, peer = Catalogue(), bare()
        catalogue.serve({"titles": Source("titles", folder=serve.model(Path(name)))})
        ours, batcher = application(catalogue), catalogue["titles"].batcher

        async def at_once(rows: Any, key: str = "") -> list[dict[str, Any]]:
            return [dict(ANSWER)]

        batcher.predict = at_once  # type: ignore[method-assign]
        for _ in range(rounds):
            times["FastAPI"].append(of_loop(peer, "/predict", count))
            times["a request"].append(of_loop(ours, "/predict/titles", count))
            batcher.queue.waiting += FULL
            times["a refusal"].append(of_loop(ours, "/predict/titles", count, 429))
            batcher.queue.waiting -= FULL
        catalogue.close()
    claims = [
        harness.ratio("a small request against FastAPI alone", None, times["FastAPI"], times["a request"]),
        harness.ratio("a refusal against FastAPI alone", 2.0, times["FastAPI"], times["a refusal"]),
    ]
    for what, seconds in times.items():
        least, most = (round(1e6 * value) for value in (min(seconds), max(seconds)))
        claims.append(harness.Claim(f"least microseconds of the processor: {what}", None, least, (least, most), True))
    harness.report(claims, ("fastapi", "starlette", "uvicorn"), options.json)


if __name__ == "__main__":
    main()
