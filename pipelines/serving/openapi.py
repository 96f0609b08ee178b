"""The OpenAPI description of the service, with what the routes and the middlewares parse and refuse themselves."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pipelines.serving import keys, schemas

UNUSED = "HTTPValidationError"  # FastAPI's own, which no route answers with, as they parse their bodies themselves
REFERENCE = "#/components/schemas/{model}"
# errors that occur before a route
OF_ALL = {400: "The request is invalid, or for another host name."}
OF_KEYS = {401: "The key is missing or unknown.", 403: "The key lacks the scope of the path."}
OF_BODIES = {
    408: "The body was not sent in time.",
    413: "The body is too large.",
    429: "Too many requests wait; Retry-After says when to try again.",
    501: "The body has a Transfer-Encoding other than chunked.",
}
# two ways to send a key (`keys.RequireKey`)
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
INVALID = 422, "The request is invalid; the sentence says what is wrong, and where."  # 400 in some protocols


def described(api: FastAPI, errors: Mapping[str, type[BaseModel]], with_keys: bool) -> dict[str, Any]:
    """The description of an application.

    Args:
        errors: the schemas of the bodies of errors by the prefixes of paths; of other paths it is `schemas.Problem`.
        with_keys: whether requests need a key, but for the paths that are open.
    """
    if api.openapi_schema:
        return api.openapi_schema
    spec = get_openapi(title=api.title, version=api.version, description=api.description, routes=api.routes)
    models: set[type[BaseModel]] = {schemas.Request, schemas.Problem, *errors.values()}
    named = sorted(models, key=lambda model: model.__name__)
    _, schema = models_json_schema([(model, "validation") for model in named], ref_template=REFERENCE)
    known = spec["components"]["schemas"]
    known |= schema["$defs"]
    for unused in (UNUSED, "ValidationError"):
        known.pop(unused, None)
    if with_keys:
        spec["components"]["securitySchemes"] = SCHEMES
    for path, verbs in spec["paths"].items():
        is_open = path in keys.OPEN
        model = next((errors[prefix] for prefix in errors if f"{path}/".startswith(f"{prefix}/")), schemas.Problem)
        content = {"application/json": {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}}
        for operation in verbs.values():
            _add_errors(operation, content, is_open)
            if with_keys and not is_open:
                operation["security"] = [{scheme: []} for scheme in SCHEMES]
    api.openapi_schema = spec
    return spec


def _add_errors(operation: dict[str, Any], content: dict[str, Any], is_open: bool) -> None:
    """Add the errors that an operation does not declare itself, with this content."""
    responses = operation["responses"]
    if UNUSED in str(responses.get("422")):
        del responses["422"]
    more = OF_ALL | ({} if is_open else OF_KEYS) | (OF_BODIES if "requestBody" in operation else {})
    if "requestBody" in operation and "400" not in responses:  # it does not answer 400 to an invalid request itself
        more |= dict([INVALID])
    for status, reason in more.items():
        responses.setdefault(str(status), {"description": reason, "content": content})
    operation["responses"] = dict(sorted(responses.items()))
