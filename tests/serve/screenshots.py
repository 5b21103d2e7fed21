"""Takes the pictures of docs/screenshots: python -m tests.serve.screenshots"""

import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.serve.browsing import DESKTOP, PHONE, chromium, inside, opened, shown
from tests.serve.served import Served, config, served
from tidegate.demo.drifting_stream import DriftingStream
from tidegate.gate.sources import raw_batch

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
RECORDS, BATCH = 62_700, 300
CUT: Any = {"x": 0, "y": 0, "width": PHONE["width"], "height": 3800}


def fill(service: Served) -> None:
    """The demo's stream, up to somewhere within a step."""
    stream = DriftingStream()
    for start in range(0, RECORDS, BATCH):
        X, y = stream.batch(start, BATCH)
        service.runner.take(raw_batch(X, y), size=X.nbytes).result()


def main() -> None:
    """Take them."""
    settings = config(
        schedule={"kind": "sliding", "window": 15_360, "step": 1024},
        budget={"epsilon": 1.0, "delta": 1e-6},
        records={"classes": list(range(5)), "norm": DriftingStream.norm},
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder) / "state", settings) as service,
        chromium() as browser,
    ):
        fill(service)
        url = f"{service.url}/#token={service.tokens['read']}"
        releases = (RECORDS - 15_360) // 1024 + 1
        for size, viewport in {"desktop": DESKTOP, "phone": PHONE}.items():
            for scheme in ("light", "dark"):
                context = {"viewport": viewport, "color_scheme": scheme}
                with opened(browser, url, **context) as page:
                    inside(page)
                    shown(page, RECORDS)
                    page.locator(f"#releases [data-number='{releases - 1}']").wait_for()
                    page.get_by_role("button", name="Fill in random numbers").click()
                    page.get_by_role("button", name="Predict").click()
                    page.locator("#prediction strong").wait_for()
                    page.wait_for_timeout(4000)  # until nothing moves
                    # On a phone the list of releases is long; its first rows tell it all.
                    cut = CUT if size == "phone" else None
                    taken = Image.open(BytesIO(page.screenshot(full_page=True, clip=cut)))
                    taken.quantize(256).save(FOLDER / f"{size}-{scheme}.png", optimize=True)


if __name__ == "__main__":
    main()
