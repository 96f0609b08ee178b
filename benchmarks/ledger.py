"""The ledger of a registered model on a local MLflow server: how long a promotion and its history take, and lineage.

The ledger is filled to 100, then to 1,000 events. Seconds are medians of several; each claim is for 1,000 events. The
server answers over HTTP from SQLite, on the same machine.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import harness

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pipelines.lifecycle import history, lineage
from pipelines.tracking import ledger, ledger_events, store
from tests.support import servers

SECONDS = 1.0
MD5 = "0123456789abcdef0123456789abcdef"


def fill(count: int) -> None:
    """Events until there are `count`, as `ledger.append` writes them, but without reading the ledger after each."""
    promotion()
    state, client = ledger.read("m"), store.connect()
    (after, digest), champion = state.last, state.champion
    findings = [{"rule": "at_least", "sentence": "a sentence of some length" * 4}] * 5
    for number in range(after + 1, count + 1):
        version = 2 if champion == 1 else 1
        event = ledger_events.Event(
            str(number), "promote", version, champion, after, digest, "me", "it passed", {"findings": findings}
        )
        tags = {ledger_events.TAG: event.text()}
        client.create_model_version("m.ledger", f"models:/m/{version}", tags=tags, await_creation_for=0)
        after, digest, champion = number, ledger_events.digest(event.text()), version


def medians(work: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    return {name: sorted(seconds) for name, seconds in harness.in_turn(work, repeats).items()}


def promotion() -> None:
    known = ledger.read("m")
    ledger.append("m", known, "promote", 2 if known.champion == 1 else 1, "it passed the gate")


def claim(name: str, seconds: list[float], aim: float | None) -> harness.Claim:
    measured = round(statistics.median(seconds), 3)
    spread = round(min(seconds), 3), round(max(seconds), 3)
    return harness.Claim(name, aim, measured, spread, aim is None or measured <= aim)


def main() -> None:
    options = harness.arguments(__doc__ or "")
    most, here = 200 if options.quick else 1000, Path.cwd()
    with (
        tempfile.TemporaryDirectory() as place,
        servers.running(servers.Mlflow(Path(place) / "server")) as server,
    ):
        os.chdir(place)
        os.environ["MLFLOW_TRACKING_URI"] = server.address
        client = store.connect()
        client.create_registered_model("m")
        stages = [{"stage": "prepare@m", "read": {}, "wrote": {"artifacts/rows/m": MD5}, "params": {}, "run": ""}]
        for _ in range(2):
            tags = {"md5": MD5, "lineage": harness.json.dumps(stages * 20)}
            client.create_model_version("m", "s3://nowhere/m", tags=tags, await_creation_for=0)
        work: dict[str, Callable[[], object]] = {
            "promotion": promotion,
            "history": lambda: history.history("m"),
            "champion": lambda: ledger.champion("m"),
            "lineage_of_a_model": lambda: lineage.of_model("m/1"),
            "lineage_of_data": lambda: lineage.of_data(MD5),
        }
        start = time.monotonic()
        fill(most // 10)
        few = medians(work, 7)
        fill(most)
        print(f"{most} promotions: {time.monotonic() - start:.0f} s")
        many = medians(work, 7)
        os.chdir(here)
    claims = [claim(f"{name}_seconds_with_{most}_events", seconds, SECONDS) for name, seconds in many.items()]
    times = [b / a for a, b in zip(few["history"], many["history"], strict=True)]
    ratio = round(statistics.median(times), 2)
    claims.append(
        harness.Claim(
            "history_of_ten_times_as_many_events",
            12.0,
            ratio,
            (round(min(times), 2), round(max(times), 2)),
            ratio <= 12,
        )
    )
    harness.report(claims, ("mlflow",), options.json)


if __name__ == "__main__":
    main()
