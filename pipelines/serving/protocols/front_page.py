"""The page at `/`: choose a model, type a row, see what the model answers, beside another model if you like."""

from fastapi import APIRouter, HTTPException
from starlette.responses import Response

from pipelines.core.errors import choices
from pipelines.serving import pages
from pipelines.serving.catalogue import Catalogue


def routes(catalogue: Catalogue) -> APIRouter:
    """The page and its files. It reads GET /models and sends POST /predict, as any client does."""
    router, names = APIRouter(include_in_schema=False), pages.names()

    @router.get("/")
    async def page() -> Response:
        return pages.file("page.html")

    @router.get("/page/{name}")
    async def file(name: str) -> Response:
        if name not in names:
            raise HTTPException(404, choices("file", name[:60], names))
        return pages.file(name)

    return router
