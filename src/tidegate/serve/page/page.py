"""Serves the page at `/`: our own files and Plotly's bundle, all from this machine."""

import json
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, Response

from tidegate.checks import InvalidValueError, not_installed
from tidegate.glossary import TERMS
from tidegate.learn.measures.measure import REGISTRY, Kind, Score, listed, numbers_for

HERE = Path(__file__).parent

TYPES = {".css": "text/css", ".svg": "image/svg+xml", ".js": "text/javascript"}
FILES = {file.name: TYPES[file.suffix] for file in HERE.iterdir() if file.suffix in TYPES}
"""The files of the page, with their media types."""

HEADERS = {
    # Load, run and connect to this server only; no inline scripts.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}


def add_page(app: FastAPI) -> None:
    """Add the page to a service. Its files hold no data, so they need no token.

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
        cached = {**HEADERS, "Cache-Control": "max-age=86400"}  # it has five megabytes
        return FileResponse(bundle, media_type="text/javascript", headers=cached)

    @app.get("/page/glossary.js", include_in_schema=False)
    def glossary() -> Response:
        text = f"export const TERMS = {json.dumps(TERMS)};\n"
        text += f"export const MEASURES = {json.dumps(measures())};\n"
        return Response(text, media_type="text/javascript", headers=HEADERS)

    @app.get("/page/{name}", include_in_schema=False)
    def file(name: str) -> FileResponse:
        if name not in FILES:
            raise HTTPException(404)
        return FileResponse(HERE / name, media_type=FILES[name], headers=HEADERS)


def measures() -> dict[str, list[dict[str, str]]]:
    """What the page shows of scores, by what is predicted, in reading order."""
    return {kind: [_measure(each, kind) for each in listed(kind)] for kind in REGISTRY}


def _measure(score: Score, kind: Kind) -> dict[str, str]:
    """A measure: its name, label, term of the glossary, format, and what it is compared with."""
    label = score.label.replace("^2", "²")
    return {
        "name": score.name,
        "label": label[0].upper() + label[1:],
        "term": next((term for term in (score.label.lower(), score.name) if term in TERMS), ""),
        "form": score.form.page,
        "baseline": score.baseline,
        "words": numbers_for(kind)[score.baseline].label if score.baseline else "",
        "alone": "yes" if score.alone else "",
    }


def _bundle() -> Path:
    """Plotly's JavaScript in the installed Python package, which is not imported."""
    package = find_spec("plotly")
    if package is None or package.origin is None:
        raise InvalidValueError(not_installed("plotly", "serve"))
    return Path(package.origin).parent / "package_data" / "plotly.min.js"
