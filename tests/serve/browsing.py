"""Debian's Chromium, and what a test wants to know of the page in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

CHROMIUM = shutil.which("chromium")
needed = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")

DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 375, "height": 800}
PATIENCE = 30_000
"""Milliseconds that a machine with much else to do may take."""

expect.set_options(timeout=PATIENCE)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as play:
        # Tests run as root in containers, where there is no sandbox.
        started = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def opened(browser: Browser, url: str, **context: Any) -> Iterator[Page]:
    """The page in a fresh context: no token, nothing remembered."""
    with browser.new_context(**{"viewport": DESKTOP, **context}) as made:
        page = made.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(url)
        yield page


def inside(page: Page) -> None:
    """Wait until all is drawn."""
    expect(page.locator("#connection")).to_have_text("Live")
    page.wait_for_selector("#ledger-charts .main-svg", state="attached")


def values(page: Page, selector: str) -> list[float]:
    """The exact numbers behind what is shown."""
    found: list[float] = page.eval_on_selector_all(
        f"{selector} data", "all => all.map(one => Number(one.value))"
    )
    return found


def shown(page: Page, records: int) -> None:
    """Wait until so many records are shown to have arrived."""
    expect(page.locator("#fact-records data")).to_have_attribute("value", str(records))
