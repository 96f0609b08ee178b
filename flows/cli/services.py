"""The commands of `bertline` that start, stop or call servers."""

import signal
from typing import Annotated, Any, NoReturn

import typer

from flows.cli.arguments import Name, group
from flows.local import prefect_settings

cli = group()


@cli.command()
def serve(
    name: Name,
    host: str = "127.0.0.1",
    port: int = 8000,
    runtime: Annotated[str, typer.Option(help="onnx or torch; by default that of the version's tag")] = "",
) -> None:
    """Serve the champion over HTTP until interrupted."""
    from flows.local.http_service import serving

    signal.signal(signal.SIGTERM, _end)
    with serving(name, host=host, port=port, runtime=runtime) as address:
        signal.signal(signal.SIGTERM, _end)  # Ray's own, which it has set meanwhile, ends in its stack's dump
        print(f"{name} answers at {address}/predict, documented at {address}/docs; Ctrl-C stops it", flush=True)
        while True:
            signal.pause()


def _end(*_: Any) -> NoReturn:
    """End as after the last line: what a service manager or a container asks for by SIGTERM is no failure."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending; what is too slow for them they kill
    raise SystemExit(0)


@cli.command()
def up() -> None:
    """Start Prefect's server, a worker and MLflow here."""
    from flows.local import servers

    print(servers.up())


@cli.command()
def down() -> None:
    """Stop what `up` started."""
    from flows.local import servers

    stopped = servers.down()
    print(f"stopped: {', '.join(stopped)}" if stopped else "nothing to stop")


@cli.command()
def trigger(
    deployment: Annotated[str, typer.Argument(help="FLOW/NAME of prefect.yaml, such as retrain/weekly")],
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated")] = None,
) -> None:
    """Run a deployment now, in the worker that `up` started."""
    from flows.trigger import trigger as ask

    print(f"{deployment}: requested the run {ask(deployment, param or [])}; see its log in Prefect's pages")


@cli.command()
def quickstart() -> None:
    """Go from samples to a served model, as `make run` does."""
    prefect_settings.before_a_flow()
    from flows.quickstart import quickstart as run

    print(run())
