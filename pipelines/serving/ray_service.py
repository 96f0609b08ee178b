"""The service in Ray Serve: replicas of the same application, on any number of machines."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from ray import serve

from pipelines.core.errors import UsageError, choices
from pipelines.serving import origins, rollouts, spans
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.certification import Conditions
from pipelines.serving.keys import Keys
from pipelines.serving.model_sources import Source
from pipelines.serving.request_log import FORMATS, OFF
from pipelines.tracking import registry

CONNECTIONS = 256  # requests that Ray Serve sends to a replica at a time; slow bodies hold one each
DRAIN_SECONDS = 20  # for requests in flight when the service stops


class Unrouted:
    """An application without the routes of FastAPI, which Ray Serve would match for the label of each request."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@serve.deployment(
    max_ongoing_requests=CONNECTIONS,
    max_queued_requests=64,
    graceful_shutdown_timeout_s=DRAIN_SECONDS,
    logging_config={"enable_access_log": False},  # the application has its own
)
@serve.ingress()
class Service:
    """A replica. It replaces its models when their aliases move, or when the config changes."""

    def __init__(
        self,
        keys: Keys,
        hosts: tuple[str, ...],
        log_format: str = OFF,
        exporter: str = "",
        allowed_origins: tuple[str, ...] = (),
    ) -> None:
        self.catalogue, self.keys, self.hosts = Catalogue(changeable=False), keys, hosts
        self.log_format, self.exporter, self.allowed_origins = log_format, exporter, allowed_origins

    def reconfigure(self, config: dict[str, Any]) -> None:
        """Open the models that `config` names, and start to follow their aliases.

        Args:
            config: {"models": {name in the service: `NAME@ALIAS`}}, or {"model": a registered name, "alias":
                "champion"} for one; and optionally "runtime": "onnx" or "torch", by default that of a version's tag,
                the numbers of `Conditions`, and lists "canary" and "shadow" (`rollouts.settle`).
        """
        limits = {limit.name: config[limit.name] for limit in fields(Conditions) if limit.name in config}
        self.catalogue.conditions = Conditions(**limits)
        served = sources(config)
        self.catalogue.serve(served)
        beside = (config.get("canary", ()), config.get("shadow", ()))
        rollouts.settle(self.catalogue, served, *beside, config.get("runtime", ""))

    def __serve_build_asgi_app__(self) -> Any:
        traced = spans.exported(self.exporter)
        made = application(self.catalogue, self.keys, self.hosts, self.log_format, traced, self.allowed_origins)
        return Unrouted(made)


def sources(config: dict[str, Any]) -> dict[str, Source]:
    """The models that a config of `Service` names, by their name in the service."""
    runtime = config.get("runtime", "")
    if "models" in config:
        return {name: Source.parse(text, runtime) for name, text in config["models"].items()}
    return {config["model"]: Source(config["model"], config.get("alias", registry.CHAMPION), runtime)}


def app(arguments: dict[str, Any]) -> serve.Application:
    """The application for registered models, as `serve run pipelines.serving.ray_service:app model=livedoor` builds it.

    Args:
        arguments: as for `Service.reconfigure`; and `keys`, a file of API keys on the machines of the replicas, or
            `open: true` to answer everybody who reaches the port; and optionally `log_format`: json, text or off, and
            `exporter`: that of OpenTelemetry's spans, such as otlp; and `allow_origins`: a list (`origins.checked`).
    """
    config = dict(arguments)
    path, without = config.pop("keys", ""), config.pop("open", False)
    log_format, exporter = config.pop("log_format", OFF), config.pop("exporter", "")
    allowed = origins.checked(config.pop("allow_origins", ()), "args: allow_origins")
    if log_format not in FORMATS:
        raise UsageError(f"args: {choices('log_format', log_format, FORMATS)}")
    if not (path or without):
        raise UsageError("args: no keys; name a file of API keys, or write `open: true` to answer everybody")
    if exporter:
        spans.require_exporter(exporter)
    keys = Keys.read(Path(path)) if path else Keys()
    return deployed(config, keys, log_format=log_format, exporter=exporter, allowed_origins=allowed)


def deployed(
    config: dict[str, Any],
    keys: Keys,
    hosts: tuple[str, ...] = (),
    log_format: str = OFF,
    exporter: str = "",
    allowed_origins: tuple[str, ...] = (),
) -> serve.Application:
    """The application with the models of `config` (`Service.reconfigure`), these keys and names of hosts."""
    options = Service.options(user_config=config)  # type: ignore[attr-defined]
    return options.bind(keys, hosts, log_format, exporter, allowed_origins)
