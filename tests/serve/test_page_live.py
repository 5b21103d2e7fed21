"""The page in a real browser, on a real service."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("plotly", reason="needs the extra serve")
pytest.importorskip("playwright", reason="needs playwright")

from playwright.sync_api import Browser, Page, expect

from tests.cli.run import json_lines, tidegate
from tests.serve.browsing import chromium, inside, needed, opened, shown, values
from tests.serve.served import Served, become, config, served, stream
from tests.serve.test_stopped import SECTIONS, STEP, batch, until_stopped
from tests.serve.test_targets import RECORDS
from tests.serve.test_targets import stream as targets

pytestmark = [needed, pytest.mark.xdist_group("live page")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def link(service: Served) -> str:
    return f"{service.url}/#token={service.tokens['read']}"


def agrees(page: Page, folder: Path) -> None:
    """What the page shows is what `tidegate ledger --format json` says, to the last digit."""
    lines = json_lines("ledger", str(folder))
    left_out = {"stream"}
    if not any(line["stopped_records"] for line in lines):
        left_out |= {"stopped_records", "stopped_paid"}
    rows = [[line[name] for line in lines] for name in lines[0] if name not in left_out]
    wanted = [value for row in rows for value in row]
    assert become(lambda: values(page, "#ledger-table") == wanted)
    assert values(page, "#used") == [max(line["paid"] for line in lines)]
    for chart, line in zip(page.locator("#ledger-charts .chart").all(), lines, strict=True):
        most = max(chart.evaluate("chart => chart.data[0].y"))
        assert most == pytest.approx(100 * line["paid"])


@pytest.mark.thorough
def test_agrees_with_the_command_line(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "state") as service, opened(browser, link(service)) as page:
        inside(page)
        expect(page.locator("#releases-words")).to_contain_text("None yet")
        page.evaluate("window.same = true")
        service.send(450)
        shown(page, 450)
        expect(page.locator("#releases li")).to_have_count(2)
        agrees(page, service.folder)
        service.send(300, 450)
        shown(page, 750)
        expect(page.locator("#releases li")).to_have_count(5)
        agrees(page, service.folder)
        held = json_lines("status", str(service.folder))[0]["streams"][0]
        assert values(page, "#held") == [held["held_records"]]
        releases = json_lines("releases", str(service.folder))
        quality = [tried["accuracy"] for release in releases for tried in release["tried"]]
        told = [each for each in quality[::-1] if each is not None]  # noise hides the others
        assert values(page, "#quality-table") == told  # the newest first
        assert page.evaluate("window.same")  # it was never loaded again


@pytest.mark.thorough
def test_shows_errors_and_predicts_a_number(browser: Browser, tmp_path: Path) -> None:
    settings = config(records=RECORDS, budget={"epsilon": 5000.0, "delta": 1e-6})
    X, minutes = targets(750)  # the mean absolute errors are 20 deviations of their noise or more
    with served(tmp_path / "state", settings) as service, opened(browser, link(service)) as page:
        service.ask("POST", "/v1/records", {"x": X.tolist(), "y": minutes.tolist()})
        shown(page, 750)
        expect(page.locator("#releases li")).to_have_count(5)
        expect(page.locator("#task")).to_contain_text("predict minutes (from 0 to 120) from a, b")
        expect(page.locator("#quality-words")).to_contain_text("mean absolute error")
        releases = json_lines("releases", str(service.folder))
        quality = [tried["mae"] for release in releases for tried in release["tried"]]
        assert become(lambda: values(page, "#quality-table") == quality[::-1])
        page.wait_for_selector("#quality-chart .main-svg", state="attached")
        expect(page.locator("#scores-measures")).to_contain_text("MAE")
        expect(page.locator("#confusion-title")).to_have_text("Predictions beside the truth")
        expect(page.locator("#survey-legend")).to_contain_text("45 to 60")
        for field in page.locator("#predict input").all():
            field.fill("0.5")
        page.locator("#predict button[type=submit]").click()
        expect(page.locator("#prediction")).to_contain_text("models predict numbers from 0 to 120")


TABLE = [
    {"name": "age", "kind": "number", "low": 0, "high": 100},
    {"name": "ward", "kind": "category", "values": ["A", "B"]},
    {"name": "code", "kind": "category", "hash": 8},
    {"name": "smoker", "kind": "flag"},
    {"name": "seen", "kind": "time"},
    {"name": "bed", "kind": "category", "values": ["1", "2"], "others": False, "gaps": False},
]


@pytest.mark.thorough
def test_the_form_has_a_field_for_each_column(browser: Browser, tmp_path: Path) -> None:
    records = {"classes": ["well", "ill"], "label": "y"}
    settings = config(records=records, columns=TABLE, budget={"epsilon": 8.0, "delta": 1e-6})
    rows = [
        {"age": i % 90, "ward": "AB"[i % 2], "code": f"x{i % 5}", "smoker": None,
         "seen": "2020-01-01T10:00:00", "bed": 1, "y": "ill" if i % 90 > 45 else "well"}
        for i in range(450)
    ]  # fmt: skip
    with served(tmp_path / "state", settings) as service, opened(browser, link(service)) as page:
        assert service.ask("POST", "/v1/records", {"records": rows}).status == 200
        shown(page, 450)
        expect(page.locator("#releases li")).to_have_count(2)
        expect(page.locator("#predict label")).to_have_count(6)
        expect(page.locator("#predict label").first).to_contain_text("number from 0 to 100")
        assert page.locator("#predict select").count() == 3
        entries = page.locator("#predict [name=bed] option").all_inner_texts()
        assert entries == ["choose", "1", "2"]  # never missing, and no other value
        entries = page.locator("#predict [name=ward] option").all_inner_texts()
        assert entries == ["missing", "A", "B", "another value"]
        page.locator("#predict button[type=submit]").click()
        assert page.locator("#predict [name=bed]").evaluate("field => field.matches(':invalid')")
        page.locator("#predict [name=bed]").select_option("2")
        page.locator("#predict [name=age]").fill("old")
        page.locator("#predict button[type=submit]").click()
        expect(page.locator("#prediction")).to_contain_text("is not a number")
        page.locator("#predict [name=age]").fill("80")
        page.locator("#predict [name=ward]").select_option("B")
        page.locator("#predict [name=seen]").fill("2020-01-01T10:00")
        page.locator("#predict button[type=submit]").click()
        record = {"age": "80", "ward": "B", "code": None, "smoker": None, "bed": "2"}
        record["seen"] = "2020-01-01T10:00"
        said = service.ask("POST", "/v1/predict", {"records": [record]}).json
        expect(page.locator("#prediction strong")).to_have_text(said["labels"][0])


@pytest.mark.thorough
def test_shows_what_the_records_of_a_stopped_step_paid(browser: Browser, tmp_path: Path) -> None:
    wrong = config(**SECTIONS, records={"classes": [7, 8], "norm": 1.5})
    with served(tmp_path / "state", wrong) as service:
        assert service.ask("POST", "/v1/records", batch(STEP)).status == 200
        until_stopped(service)
    right = config(**SECTIONS, records={"classes": [0, 1], "norm": 1.5})
    with served(tmp_path / "state", right) as service, opened(browser, link(service)) as page:
        assert service.ask("POST", "/v1/records", batch(STEP)).status == 200
        shown(page, STEP)
        inside(page)
        agrees(page, service.folder)
        assert values(page, "#ledger-table")[-2:] == [STEP, pytest.approx(0.05)]


def send(service: Served, name: str, size: int) -> None:
    X, y = stream(size)
    body = {"x": X.tolist(), "y": y.tolist()}
    assert service.ask("POST", f"/v1/records?stream={name}", body).status == 200


@pytest.mark.thorough
def test_shows_two_streams(browser: Browser, tmp_path: Path) -> None:
    source = {"kind": "sliding", "window": 300, "step": 100}
    schedule = {"kind": "twostream", "step": 50, "source": source}
    settings = config(schedule=schedule, budget={"epsilon": 5000.0})  # no noise hides a score
    with served(tmp_path / "state", settings) as service, opened(browser, link(service)) as page:
        send(service, "source", 300)
        send(service, "target", 120)
        shown(page, 420)
        inside(page)
        expect(page.locator("#streams h3")).to_have_text(["Stream “source”", "Stream “target”"])
        expect(page.locator(".lanes").nth(1)).to_contain_text("Refined on 100 more")
        agrees(page, service.folder)
        releases = page.locator("#quality-chart").evaluate("chart => chart.data[2].x")
        assert releases == sorted(releases)  # the streams' own counts would go to and fro
        send(service, "source", 100)
        expect(page.locator(".lanes").nth(1)).to_contain_text("was not trained on these")


@pytest.mark.thorough
def test_predicts_and_downloads(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "state") as service, opened(browser, link(service)) as page:
        service.send(300)
        page.get_by_label("a", exact=True).fill("1")
        page.get_by_label("b", exact=True).fill("0.5")
        page.get_by_role("button", name="Predict").click()
        said = service.ask("POST", "/v1/predict", {"x": [[1, 0.5]]}).json
        expect(page.locator("#prediction strong")).to_have_text(str(said["labels"][0]))
        page.locator("#releases summary").click()
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Download Card").click()
        card = service.ask("GET", "/v1/releases/0/card.md").body
        assert waiting.value.path().read_bytes() == card


@contextmanager
def demo(folder: Path) -> Iterator[str]:
    """The link that the command prints which the demo ends with."""
    where = ("--state", str(folder / "demo.state"), "--plot", str(folder / "demo.png"))
    told = tidegate("demo", "--records", "10240", *where).stdout
    command = shlex.split(told.splitlines()[-1].partition("page: ")[2])
    with subprocess.Popen(
        [sys.executable, "-m", *command, "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = (line for line in process.stdout if line.startswith("Open "))
        try:
            yield next(lines).removeprefix("Open ").strip()
        finally:
            process.terminate()


@pytest.mark.thorough
def test_shows_the_state_of_the_demo_and_goes_on_with_its_stream(
    browser: Browser, tmp_path: Path
) -> None:
    with demo(tmp_path) as url, opened(browser, url) as page:
        inside(page)
        page.evaluate("window.same = true")
        expect(page.locator("#releases [data-number='6']")).to_be_visible()  # made by the demo
        records, chain = page.locator("#fact-records"), page.locator(".lanes")
        assert values(page, "#fact-records")[0] >= 10_240
        before = records.inner_text(), chain.inner_text()
        expect(records).not_to_have_text(before[0])
        expect(chain).not_to_have_text(before[1])
        assert page.evaluate("window.same")
