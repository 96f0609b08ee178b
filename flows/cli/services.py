"""The commands of `bertline` that start, stop or call servers."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from flows.cli import completion
from flows.cli.arguments import REFUSED, group, json_with, print_answer, require_version
from flows.cli.panels import LOOK_AFTER, MAKE, SERVE, listed
from flows.local import prefect_settings

cli = group()
SLOWDOWN = "most time of a new version for its smoke rows, as a multiple of the current one's; 0: no limit"
BESIDE = "SOURCE[:SHARE]"
CANARY = "a version that answers a share of its model's requests, by default 0.05"
SHADOW = "a version that reads a share of them, by default all; its answers are only compared"
DISAGREEMENTS = "a folder for what shadows answer otherwise, in Parquet; rows as digests"
RECEIPTS = "a file of keys: each answer of the plain protocol has a receipt"
REQUESTS = "store digests and answers of predicted rows for so many days, in state/requests"
Days = Annotated[int | None, typer.Option("--keep-requests", metavar="DAYS", min=1, max=36_500, help=REQUESTS)]
TEXTS = "with --keep-requests: with the rows' texts, which `bertline promote --replay` needs"
MODEL_MB = "most megabytes of a new version's files; 0: what fits in the free memory"
ORIGIN = "pages of this origin may call the service from a browser, such as https://www.example.com; may be repeated"
CERTIFICATE = "answer by https alone, with the certificate in this file of PEM; a renewed one is taken up"
DEPLOYMENT = "FLOW/NAME, such as retrain/weekly; `bertline status` lists those with a time"
TLS_KEY = "its private key, which nobody else may read; by default in the same file"


@cli.command(**listed(SERVE, "bertline serve headlines", "bertline serve headlines faq=artifacts/onnx/faq --port 8001"))
def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="NAME, NAME@ALIAS, NAME@NUMBER, NAME=FOLDER", autocompletion=completion.served
        ),
    ],
    host: Annotated[str, typer.Option(help="the address to listen on; 0.0.0.0: all of this machine")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="the port to listen on")] = 8000,
    runtime: Annotated[str, typer.Option(help="onnx or torch; by default that of the version's tag")] = "",
    keys: Annotated[Path | None, typer.Option(help="a file of API keys, or BERTLINE_KEYS holds them")] = None,
    without_keys: Annotated[bool, typer.Option("--open", help="answer other machines without a key")] = False,
    slowdown: Annotated[float, typer.Option("--max-slowdown", min=0, help=SLOWDOWN)] = 5.0,
    model_mb: Annotated[float, typer.Option("--max-model-mb", min=0, help=MODEL_MB)] = 0.0,
    log_format: Annotated[str, typer.Option(help="a line a request on stderr: json, text, off")] = "",
    canary: Annotated[list[str] | None, typer.Option(metavar=BESIDE, help=CANARY)] = None,
    shadow: Annotated[list[str] | None, typer.Option(metavar=BESIDE, help=SHADOW)] = None,
    disagreements: Annotated[Path | None, typer.Option(help=DISAGREEMENTS)] = None,
    texts: Annotated[bool, typer.Option("--store-texts", help="with --disagreements: with the rows' texts")] = False,
    receipts: Annotated[Path | None, typer.Option(help=RECEIPTS)] = None,
    request_days: Days = None,
    request_texts: Annotated[bool, typer.Option("--keep-texts", help=TEXTS)] = False,
    allowed: Annotated[list[str] | None, typer.Option("--allow-origin", metavar="ORIGIN", help=ORIGIN)] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help=CERTIFICATE)] = None,
    tls_key: Annotated[Path | None, typer.Option(help=TLS_KEY)] = None,
    ray: Annotated[bool, typer.Option("--ray", help="serve from replicas in Ray Serve; so does RAY_ADDRESS")] = False,
) -> None:
    """Serve registered models, by default their champions, or folders over HTTP until interrupted."""
    _require(models)
    from flows.local import http_service
    from pipelines.serving import certification, model_sources, origins

    known = http_service.keys_for(host, keys, without_keys)
    hosts = () if known.keys or without_keys else http_service.LOOPBACK
    who = origins.checked(allowed or (), "--allow-origin"), http_service.certificate(tls_certificate, tls_key)
    sources = model_sources.sources(models, runtime)
    about = host, port, known, hosts, http_service.log_format(log_format), certification.Conditions(slowdown, model_mb)
    beside = http_service.beside(sources, runtime, canary or (), shadow or (), disagreements, texts, receipts)
    stored = http_service.stored_days(request_days, request_texts), request_texts
    _serve(sources, ray, http_service.Settings(*about, *beside, http_service.exporter(), *stored, *who))


def _serve(sources: dict[str, Any], ray: bool, settings: Any) -> None:
    """Serve models by an `http_service.Settings`, and wait for a signal."""
    from flows.local import http_service

    _end_by_signals()
    service = http_service.serving_in_ray if ray or "RAY_ADDRESS" in os.environ else http_service.serving
    with service(sources, settings) as address:
        _end_by_signals()  # Ray has set its own meanwhile, which prints its stack
        _wait(sources, address)


def _require(models: Iterable[str]) -> None:
    """Raise InputError for a model that is not registered or has no such version; folders are opened later."""
    for name, _, which in (model.partition("@") for model in models if "=" not in model):
        require_version(name, which)


def _wait(names: Iterable[str], address: str) -> NoReturn:
    """Print where models answer, and wait for a signal."""
    for name in names:
        print(f"{name} answers at {address}/predict/{name}", flush=True)
    print(f"{address}/docs describes the service; Ctrl-C stops it", flush=True)
    while True:
        signal.pause()


def _end_by_signals() -> None:
    """End at SIGTERM, and at SIGHUP of a terminal that closes unless it is ignored, as by nohup."""
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _end)


def _end(*_: Any) -> NoReturn:
    """End as after the last line: what a service manager or a container asks for by SIGTERM is no failure."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it is ending; what is too slow for them they kill
    raise SystemExit(0)


@cli.command(**listed(LOOK_AFTER, "bertline up"))
def up(as_json: Annotated[bool, json_with("prefect, key_file, mlflow, logs")] = False) -> None:
    """Start Prefect's server, a worker and MLflow here."""
    from flows.local import servers

    print_answer(servers.up(), as_json, servers.plain)


@cli.command(**listed(LOOK_AFTER, "bertline down"))
def down(as_json: Annotated[bool, json_with("stopped")] = False) -> None:
    """Stop what `up` started."""
    from flows.local import servers

    stopped = servers.down()
    sentence = f"stopped: {', '.join(stopped)}" if stopped else "nothing to stop"
    print_answer({"stopped": stopped}, as_json, lambda _: sentence)


@cli.command(**listed(LOOK_AFTER, "bertline trigger retrain/weekly"))
def trigger(
    deployment: Annotated[str, typer.Argument(help=DEPLOYMENT)],
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated")] = None,
    queue: Annotated[str, typer.Option(help="a work queue: urgent, scoring or training; by default its own")] = "",
    as_json: Annotated[bool, json_with("deployment, run")] = False,
) -> None:
    """Run a deployment now, in the worker that `up` started."""
    from flows.trigger import trigger as ask

    run = ask(deployment, param or [], queue)
    sentence = f"{deployment}: requested the run {run}; see its log in Prefect's pages"
    print_answer({"deployment": deployment, "run": run}, as_json, lambda _: sentence)


@cli.command(**listed(MAKE, "bertline quickstart"))
def quickstart() -> None:
    """Make all of params.yaml, promote the first entry of `promote`, score its rows and ask it once.

    If the gate refuses it and there is no champion, end with status 3.
    """
    prefect_settings.before_a_flow()
    from flows.quickstart import quickstart as run

    summary, answered = run()
    print(summary)
    if not answered:
        raise typer.Exit(REFUSED)
