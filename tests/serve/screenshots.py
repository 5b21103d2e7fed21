"""Takes the pictures of docs/screenshots: python -m tests.serve.screenshots"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from time import sleep
from typing import Any

from PIL import Image
from playwright.sync_api import Browser

from tests.serve.browsing import DESKTOP, PHONE, chromium, inside, opened, shown
from tests.serve.served import Served, config, served
from tidegate.demo.demo_state import DriftingStream
from tidegate.sources import raw_batch

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
RECORDS, BATCH = 62_700, 300
CUT: Any = {"x": 0, "y": 0, "width": PHONE["width"], "height": 5600}


def fill(service: Served) -> None:
    """The demo's stream, up to somewhere within a step, with all complete steps trained."""
    stream = DriftingStream()
    for start in range(0, RECORDS, BATCH):
        X, y = stream.batch(start, BATCH)
        service.runner.take(raw_batch(X, y), size=X.nbytes).result()
    while service.client("read").status()["streams"][0]["steps_waiting"]:
        sleep(1.0)


@contextmanager
def filled(**schedule: Any) -> Iterator[str]:
    """The link to a service with this schedule, on the demo's stream."""
    settings = config(
        schedule={**schedule, "step": 1024},
        budget={"epsilon": 1.0, "delta": 1e-6},
        records={"classes": list(range(5)), "norm": DriftingStream.norm},
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder) / "state", settings) as service,
    ):
        fill(service)
        yield f"{service.url}/#token={service.tokens['read']}"


def whole_page(browser: Browser, url: str) -> None:
    """The page, large and small, light and dark."""
    for size, viewport in {"desktop": DESKTOP, "phone": PHONE}.items():
        for scheme in ("light", "dark"):
            with opened(browser, url, viewport=viewport, color_scheme=scheme) as page:
                inside(page)
                shown(page, RECORDS)
                page.locator("#releases li").first.wait_for()
                page.get_by_role("button", name="Fill in random numbers").click()
                page.get_by_role("button", name="Predict").click()
                page.locator("#prediction strong").wait_for()
                page.wait_for_timeout(4000)  # until nothing moves
                # On a phone the list of releases is long; its first rows tell it all.
                cut = CUT if size == "phone" else None
                save(page.screenshot(full_page=True, clip=cut), f"{size}-{scheme}")


def chain(browser: Browser, url: str) -> None:
    """The part of the page that shows how a sliding window's newest model was made."""
    with opened(browser, url) as page:
        inside(page)
        shown(page, RECORDS)
        page.wait_for_timeout(4000)  # until nothing moves
        save(page.locator("section.wide").screenshot(), "chain")


def save(picture: bytes, name: str) -> None:
    """Write a picture, in few colours."""
    Image.open(BytesIO(picture)).quantize(256).save(FOLDER / f"{name}.png", optimize=True)


def main() -> None:
    """Take them."""
    with chromium() as browser:
        with filled(kind="fading") as url:
            whole_page(browser, url)
        with filled(kind="sliding", window=15_360) as url:
            chain(browser, url)


if __name__ == "__main__":
    main()
