"""Prefect's server as an ASGI application that answers only to its own names: for uvicorn's `--factory`."""

import os

from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

HOSTS = "BERTLINE_PREFECT_HOSTS"  # the names, without ports, by commas
OWN_HOSTS = "127.0.0.1,localhost"


def app() -> FastAPI:
    """Prefect's application; it does not start without a key in PREFECT_SERVER_API_AUTH_STRING."""
    assert os.environ.get("PREFECT_SERVER_API_AUTH_STRING"), "no key: everybody who reaches the port could run commands"
    from prefect.server.api.server import create_app

    application = create_app(final=True)
    names = os.environ.get(HOSTS, OWN_HOSTS).split(",")
    # else a page of another site, whose name is made to point here, is of the same origin for a browser
    application.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    return application
