"""The web pages of the service: their files, sent under a policy that forbids everything from elsewhere."""

from functools import lru_cache
from pathlib import Path

from starlette.responses import Response

FOLDER = Path(__file__).with_name("web")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# Files and requests come from this service only, and a script cannot make HTML of a text.
POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{what}-src 'self'" for what in ("script", "style", "img", "connect")),
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def names() -> list[str]:
    """The files that pages load by their names."""
    return sorted(path.name for path in FOLDER.iterdir() if path.suffix in TYPES)


@lru_cache
def _content(name: str) -> bytes:
    return FOLDER.joinpath(name).read_bytes()


def file(name: str) -> Response:
    """A file of the pages as a response. Raises KeyError for another type of file."""
    return Response(_content(name), headers=HEADERS, media_type=TYPES[Path(name).suffix])
