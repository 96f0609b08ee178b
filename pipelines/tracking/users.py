"""The rights of users on an MLflow server with basic-auth, as far as the ledger depends on them."""

from typing import Any

from mlflow.utils.credentials import get_default_host_creds
from mlflow.utils.rest_utils import http_request

from pipelines.tracking import store

WHO = "/api/2.0/mlflow/users/current"
MAY = "/api/3.0/mlflow/users/permissions/get"
NOT_FOUND = 404


def manages(name: str, as_administrator: bool = True) -> bool:
    """Return whether this user may decide who may write the registered model `name` (permission MANAGE).

    The creator of the model may, and an administrator. If `as_administrator` is false, an administrator needs the
    permission too, as creator or by a grant.

    Without users everybody may: in a local database, and on a server without this endpoint. The result is False if the
    server refuses the request or its answer cannot be read.
    """
    place = store.uri()
    if not place.startswith("http"):
        return True
    who = _ask(place, WHO)
    if who.status_code == NOT_FOUND:
        return True
    try:
        user = who.json()["user"]
        if user["is_admin"] and as_administrator:
            return True
        about = {"username": user["username"], "resource_type": "registered_model", "resource_id": name}
        return bool(_ask(place, MAY, params=about).json()["permission"] == "MANAGE")
    except (ValueError, KeyError, TypeError):  # a refusal, or the HTML page of a proxy
        return False


def _ask(place: str, question: str, **more: Any) -> Any:
    return http_request(get_default_host_creds(place), question, "GET", **more)
