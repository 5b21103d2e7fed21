"""The page at `/`: a few files of our own and Plotly's bundle, all served from this machine."""

import json
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, Response

from tidegate.checks import InvalidValueError
from tidegate.glossary import TERMS

HERE = Path(__file__).parent

TYPES = {".css": "text/css", ".svg": "image/svg+xml", ".js": "text/javascript"}
FILES = {file.name: TYPES[file.suffix] for file in HERE.iterdir() if file.suffix in TYPES}
"""What the page is made of, and of which type each file is."""

HEADERS = {
    # Only what this server sends is loaded, run or asked; nothing written into the page is run.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}


def add_page(app: FastAPI) -> None:
    """Add the page to a service. Its files hold no data, so they are open to all.

    >>> app = FastAPI(openapi_url=None)
    >>> add_page(app)
    >>> [route.path for route in app.routes]
    ['/', '/page/plotly.min.js', '/page/glossary.js', '/page/{name}']
    """
    bundle = _bundle()

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(HERE / "page.html", media_type="text/html", headers=HEADERS)

    @app.get("/page/plotly.min.js", include_in_schema=False)
    def plotly() -> FileResponse:
        kept = {**HEADERS, "Cache-Control": "max-age=86400"}  # five megabytes
        return FileResponse(bundle, media_type="text/javascript", headers=kept)

    @app.get("/page/glossary.js", include_in_schema=False)
    def glossary() -> Response:
        text = f"export const TERMS = {json.dumps(TERMS)};\n"
        return Response(text, media_type="text/javascript", headers=HEADERS)

    @app.get("/page/{name}", include_in_schema=False)
    def file(name: str) -> FileResponse:
        if name not in FILES:
            raise HTTPException(404)
        return FileResponse(HERE / name, media_type=FILES[name], headers=HEADERS)


def _bundle() -> Path:
    """Plotly's JavaScript inside the installed Python package; the package is not imported."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise InvalidValueError("the page needs plotly: pip install 'tidegate[serve]'")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"
