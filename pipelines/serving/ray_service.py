"""The service in Ray Serve: replicas of the same application, on any number of machines."""

from typing import Any

from ray import serve

from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue, Source
from pipelines.tracking import registry

ARGUMENTS = ("model", "alias", "runtime")
CONNECTIONS = 256  # requests that Ray Serve sends to a replica at a time; slow bodies hold one each
DRAIN_SECONDS = 20  # for requests in flight when the service stops


@serve.deployment(max_ongoing_requests=CONNECTIONS, max_queued_requests=64, graceful_shutdown_timeout_s=DRAIN_SECONDS)
@serve.ingress()
class Service:
    """A replica. It replaces its models when their aliases move, or when the config changes."""

    def __init__(self) -> None:
        self.catalogue = Catalogue()

    def reconfigure(self, config: dict[str, Any]) -> None:
        """Open the models that `config` names, and start to follow their aliases.

        Args:
            config: {"models": {name in the service: `NAME@ALIAS`}}, or {"model": a registered name, "alias":
                "champion"} for one; and optionally "runtime": "onnx" or "torch", by default that of a version's tag.
        """
        self.catalogue.serve(sources(config))

    def __serve_build_asgi_app__(self) -> Any:
        return application(self.catalogue)


def sources(config: dict[str, Any]) -> dict[str, Source]:
    """The models that a config of `Service` names, by their name in the service."""
    runtime = config.get("runtime", "")
    if "models" in config:
        return {name: Source.parse(text, runtime) for name, text in config["models"].items()}
    return {config["model"]: Source(config["model"], config.get("alias", registry.CHAMPION), runtime)}


def app(arguments: dict[str, Any]) -> serve.Application:
    """The application for registered models, as `serve run pipelines.serving.ray_service:app model=livedoor` builds it.

    Args:
        arguments: as for `Service.reconfigure`.
    """
    return Service.options(user_config=arguments).bind()  # type: ignore[attr-defined]
