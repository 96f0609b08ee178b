"""An MLflow server with users (basic-auth)."""

import re
from pathlib import Path

from mlflow.server import auth

OPTIONS = ("--app-name", "basic-auth", "--workers", "1")


def settings(place: Path, password: str) -> dict[str, str]:
    """The environment of such a server; its administrator is `admin`."""
    text = Path(auth.__file__).with_name("basic_auth.ini").read_text()
    text, cached = re.subn("# auth_cache_ttl_seconds = 0", "auth_cache_ttl_seconds = 60", text)
    assert cached, "a password is looked at again in each request, which takes a second on a busy machine"
    place.mkdir(parents=True, exist_ok=True)
    (place / "auth.ini").write_text(text)
    return {
        "MLFLOW_AUTH_ADMIN_PASSWORD": password,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "a secret of the test",
        "MLFLOW_AUTH_CONFIG_PATH": str(place / "auth.ini"),
    }
