"""The HTTP service against FastAPI and uvicorn with the same model, the leanest service, and the model in process.

Requests are single titles of the samples, in a closed loop of 1, 8 and 32 clients; contenders take turns. A replica in
Ray Serve is measured by serve_ray.py, since an idle Ray takes part of a core. In overload, the service has one core and
the load generator another, else the generator takes the time that it measures; requests are due at 2, 5 and 10 times
the rate of 32 clients on that core, and goodput is what was answered. The model is encoders/mini-ja with a new head,
exported; its weights have no effect on the time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import harness

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import psutil
import pyarrow as pa

from flows.local.http_service import wait_for
from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.core.ports import free_port
from pipelines.core.task import Task
from pipelines.export import onnx_export
from pipelines.inference.predictor import Predictor

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = (1, 8, 32)
AIMS = (1.2, 2.2, 2.5)  # against FastAPI, by clients
BERTLINE = (sys.executable, "-m", "flows.cli", "serve")
LATE = 0.1  # seconds; a generator that sends later measures itself
LABELS = tuple(f"class-{number}" for number in range(9))


def model(place: Path) -> Path:
    """An exported classifier of titles."""
    tuned, exported = place / "tuned", place / "exported"
    for folder in (tuned, exported):
        folder.mkdir()
    encoder, task = ROOT / "encoders/mini-ja", Task("titles", "single", LABELS, "accuracy", language="ja")
    model_folder.save(new_head.for_task(encoder, task), tuned, encoder, task)
    onnx_export.export(tuned, exported, 18)
    return exported


def titles() -> list[str]:
    """The title of each sample article."""
    files = sorted((ROOT / "samples/livedoor").glob("*.tsv"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    texts = [line.partition("\t")[0] for line in lines]
    assert len(texts) > 50, "the samples are there"
    return texts


@contextmanager
def running(*words: str, health: str, **environment: str) -> Iterator[tuple[float, psutil.Process]]:
    """A server in a process of its own; yields the seconds until it answers at `health`, and the process."""
    start = time.perf_counter()
    process = psutil.Popen(
        words, env=os.environ | environment, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        wait_for(health, 180)
        yield time.perf_counter() - start, process
    finally:
        process.terminate()
        process.wait(60)


def load(
    address: str, path: str, bodies: Path, clients: int, seconds: float, rate: float = 0, core: int | None = None
) -> dict[str, Any]:
    """Run benchmarks/load.py, on any core or one; returns its measurements."""
    words = [address, path, str(bodies), str(clients), str(seconds), *([str(rate)] if rate else [])]
    with psutil.Popen(
        [sys.executable, ROOT / "benchmarks/load.py", *words], stdout=subprocess.PIPE, text=True
    ) as generator:
        if core is not None:
            generator.cpu_affinity([core])
        measured, _ = generator.communicate()
    assert generator.returncode == 0, "the load generator ended with an error"
    return json.loads(measured)


def in_process(folder: Path, texts: list[str], seconds: float) -> float:
    """The rows a second of two threads that predict batches of 16 rows, as `bertline score` could at best."""
    predictor, end = Predictor.load(folder, threads=1), time.perf_counter() + seconds
    tables = [pa.table({"text": texts[i : i + 16]}) for i in range(0, len(texts) - 15, 16)]

    def work(number: int) -> int:
        rows = 0
        while time.perf_counter() < end:
            rows += predictor.predict(tables[(rows // 16 + number) % len(tables)]).num_rows
        return rows

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(work, range(2))) / seconds


def rate_claim(name: str, aim: float | None, ours: list[float], peer: list[float]) -> harness.Claim:
    return harness.ratio(name, aim, [1 / rate for rate in peer], [1 / rate for rate in ours])


def overload(folder: Path, bodies: Path, seconds: float) -> list[harness.Claim]:
    """Claims about the answers when more requests are due than the service can do, on a core of its own.

    Where the load generator sends late, the name of a claim says so.
    """
    port, claims = str(free_port()), []
    address = f"http://127.0.0.1:{port}"
    service_core, load_core = sorted(os.sched_getaffinity(0))[:2]
    with running(*BERTLINE, f"titles={folder}", "--port", port, health=f"{address}/health") as (_, process):
        for thread in process.threads():  # an affinity is a thread's; threads that start later inherit it
            os.sched_setaffinity(thread.id, [service_core])
        before = load(address, "/predict/titles", bodies, 32, seconds / 3, core=load_core)
        memory = process.memory_info().rss
        for times in (2, 5, 10):
            rate = times * before["per_second"]
            answered = load(address, "/predict/titles", bodies, 0, seconds, rate, core=load_core)
            claims += in_overload(times, answered, before["per_second"])
        grown = round((process.memory_info().rss - memory) / 2**20)
    name = f"MB of memory that the service grew by in {3 * seconds:.0f} s of overload"
    return [*claims, harness.Claim(name, None, grown, (grown, grown), True)]


def in_overload(times: int, answered: dict[str, Any], peak: float) -> list[harness.Claim]:
    """Claims about one load, from what benchmarks/load.py measured."""
    late = answered["late"]
    where = f"at {times} times the rate" + (f", requests sent up to {late:.1f} s late" if late > LATE else "")
    share, p99 = round(answered["per_second"] / peak, 2), round(answered["p99"], 2)
    refused = round(1000 * answered["refused_p50"], 2)
    return [
        harness.Claim(f"goodput {where}, against 32 clients", 0.95, share, (share, share), share >= 0.95),
        harness.Claim(f"seconds of the slowest 1% answered {where}", None, p99, (p99, p99), True),
        harness.Claim(f"milliseconds of a refusal {where}", None, refused, (refused, refused), True),
    ]


def main() -> None:
    options = harness.arguments(__doc__ or "")
    rounds, seconds = (2, 2.0) if options.quick else (5, 4.0)
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        place = Path(name)
        folder, texts = model(place), titles()
        bodies = place / "bodies"
        bodies.write_text("\n".join(json.dumps({"rows": [{"text": text}]}) for text in texts), encoding="utf-8")
        claims = compared(servers, folder, texts, bodies, rounds, seconds)
        servers.close()
        claims += overload(folder, bodies, 15 * seconds)
    harness.report(claims, ("fastapi", "uvicorn", "onnxruntime"), options.json)


def compared(
    servers: ExitStack, folder: Path, texts: list[str], bodies: Path, rounds: int, seconds: float
) -> list[harness.Claim]:
    """Start every contender, and measure them in turn."""
    addresses, started = {}, {}
    for kind in ("plain", "lean", "one process"):
        port = str(free_port())
        addresses[kind] = f"http://127.0.0.1:{port}"
        if kind in ("plain", "lean"):
            words = [sys.executable, "-m", "uvicorn", "--factory", f"serve_peers:{kind}", "--app-dir", "benchmarks"]
            words += ["--port", port, "--log-level", "warning", "--no-access-log"]
        else:
            words = [*BERTLINE, f"titles={folder}", "--port", port]
        health = f"{addresses[kind]}/health"
        started[kind], _ = servers.enter_context(running(*words, health=health, MODEL=str(folder)))
    rates: dict[tuple[str, int], list[float]] = {}
    direct: list[float] = []
    for _ in range(rounds):
        for clients in CLIENTS:
            for kind, address in addresses.items():
                path = "/predict" if kind in ("plain", "lean") else "/predict/titles"
                rates.setdefault((kind, clients), []).append(
                    load(address, path, bodies, clients, seconds)["per_second"]
                )
        direct.append(in_process(folder, texts, seconds))
    claims = []
    for clients, aim in zip(CLIENTS, AIMS, strict=True):
        name = f"one process against FastAPI, {clients} clients"
        claims.append(rate_claim(name, aim, rates["one process", clients], rates["plain", clients]))
    for clients in CLIENTS:
        name = f"one process against the leanest, {clients} clients"
        claims.append(rate_claim(name, 0.9, rates["one process", clients], rates["lean", clients]))
    claims.append(
        rate_claim("one process at 32 clients against the model in process", 0.7, rates["one process", 32], direct)
    )
    first = round(started["one process"], 1)
    claims.append(
        harness.Claim(
            "seconds from `bertline serve` to its first answer (at most)", 6, first, (first, first), first <= 6
        )
    )
    return claims


if __name__ == "__main__":
    main()
