"""The page in a real browser, on a service that answers out of a plan."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("plotly", reason="needs the extra serve")
pytest.importorskip("playwright", reason="needs playwright")

import uvicorn
from playwright.sync_api import Browser, Page, Route, expect

from tests.serve.browsing import DESKTOP, PHONE, chromium, inside, needed, opened, shown, values
from tests.serve.fake import TOKEN, Fake, fake_app
from tests.serve.served import become
from tidegate.glossary import TERMS
from tidegate.privacy.budget import down
from tidegate.privacy.meaning import meaning, paid_so_far, whom
from tidegate.privacy.person import Person
from tidegate.release.verdict import verdict_words
from tidegate.schedule import Fading, SlidingWindow
from tidegate.state.status import verdict_row

pytestmark = [needed, pytest.mark.xdist_group("page")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@contextmanager
def served(fake: Fake, port: int = 0) -> Iterator[str]:
    """The service on a port, for a while."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        fake_app(fake), log_level="error", ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.force_exit = server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="module")
def fake() -> Fake:
    return Fake(records=50_600)


@pytest.fixture(scope="module")
def page(browser: Browser, url: str) -> Iterator[Page]:
    """One page for all who leave it as it is: a chart library is not loaded in no time."""
    with opened(browser, url) as page:
        inside(page)
        yield page


@pytest.fixture(scope="module")
def url(fake: Fake) -> Iterator[str]:
    with served(fake) as at:
        yield f"{at}/#token={TOKEN}"


@pytest.mark.thorough
def test_asks_for_a_token(browser: Browser, url: str) -> None:
    with opened(browser, url.split("#", maxsplit=1)[0]) as page:
        expect(page.locator("#authentication")).to_contain_text("tidegate token create")
        expect(page.locator("#main")).to_be_hidden()
        expect(page.locator("#token")).to_be_focused()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#authentication-error")).to_contain_text("not valid")
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        inside(page)
        expect(page.locator("#authentication")).to_be_hidden()
        page.get_by_role("button", name="Forget the token").click()
        expect(page.locator("#authentication")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0
        page.goto(url)  # a link with a token, in a tab that has the page already
        inside(page)


def test_takes_the_token_out_of_the_address(page: Page) -> None:
    assert TOKEN not in page.url


@pytest.mark.thorough
def test_loads_nothing_from_elsewhere_and_keeps_its_policy(browser: Browser, url: str) -> None:
    with opened(browser, "about:blank") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.add_init_script(
            "window.refused = [];"
            "addEventListener('securitypolicyviolation', (event) => refused.push("
            "[event.effectiveDirective, event.sourceFile.split('/').pop()]))"
        )
        page.goto(url)
        inside(page)
        page.locator("#ledger-charts .main-svg").first.hover()
        home = url.split("#", maxsplit=1)[0]
        assert all(address.startswith(home) for address in asked)
        # Plotly's maps come with a <style> element: refused, and no map is drawn here.
        assert page.evaluate("refused") in ([], [["style-src-elem", "plotly.min.js"]])


def test_says_what_the_ledger_says(page: Page, fake: Fake) -> None:
    expect(page.locator("#promise")).to_contain_text("at most ε = 1, δ = 10⁻⁶ about")
    expect(page.locator("#meaning")).to_have_text(meaning(1.0, 1e-6))
    worst = fake.ledger.worst()
    assert values(page, "#ledger-table") == [
        fake.records,
        fake.ledger.posted,
        fake.evaluations,
        worst.record,
        pytest.approx(float(worst.share)),
        1.0,
    ]
    assert values(page, "#used")[0] == pytest.approx(float(worst.share))
    expect(page.locator("#used")).to_have_text(paid_so_far(down(worst.share)))
    newest = fake.trained_on(fake.released[-1])
    expect(page.locator("#stream-words")).to_contain_text(f"The newest model is {newest}.")
    expect(page.locator("#releases dd").first).to_have_text(newest)
    drawn = page.evaluate("document.querySelector('#ledger-charts .chart').data[0].y")
    assert max(drawn) == pytest.approx(100 * float(worst.share))
    bound = page.evaluate("document.querySelector('#ledger-charts .chart').layout.shapes[0].y0")
    assert bound == 100


@pytest.mark.thorough
def test_moves_as_records_arrive(browser: Browser) -> None:
    fake = Fake(records=50_000)
    with served(fake) as at, opened(browser, f"{at}/#token={TOKEN}") as page:
        inside(page)
        shown(page, 50_000)
        page.evaluate("window.same = true")
        cards = page.evaluate(CARDS)
        for _ in range(5):  # over the start of a new pass, with a base of its own
            base = fake.chain()[0]["start"]
            was = page.evaluate(BASE_FROM)
            fake.arrive(1024)
            shown(page, fake.records)
            newest = page.locator("#releases li").first
            expect(newest).to_have_attribute("data-number", str(len(fake.released) - 1))
            assert page.evaluate(BLOCKS) == [[one["start"], one["stop"]] for one in fake.chain()]
            if fake.chain()[0]["start"] == base:  # the same block has slid to the left
                assert page.evaluate(BASE_FROM) < was
        assert page.evaluate(CARDS) == cards  # nothing else has moved
        assert page.evaluate("window.same")  # nothing was loaded again


CARDS = "[...document.querySelectorAll('.card')].map((card) => card.offsetTop)"
BASE_FROM = """Number(document.querySelector('.plot .block.base:not(.away)')
  .style.getPropertyValue('--from'))"""
BLOCKS = """[...document.querySelectorAll('.lanes .where')].map((where) => {
  const [start, stop] = where.textContent.replaceAll(',', '').split(' to ').map(Number);
  return [start, stop + 1];
})"""


@pytest.mark.thorough
def test_weights_fade_as_records_arrive(browser: Browser) -> None:
    fake = Fake(schedule=Fading(step=1024), records=20_000)
    with served(fake) as at, opened(browser, f"{at}/#token={TOKEN}") as page:
        inside(page)
        expect(page.locator("#stream-words")).to_contain_text("remembering older ones")
        expect(page.locator("#weight-words")).to_be_visible()
        expect(page.locator(".lanes li")).to_have_text(
            ["◆ One fit of 7,168 records12,288 to 19,455"]
        )
        before = page.evaluate(BARS)
        assert [bar["weight"] for bar in before] == pytest.approx([0.7**age for age in range(7)])
        page.evaluate("document.querySelectorAll('.plot .bar').forEach(bar => bar.known = true)")
        fake.arrive(1024)
        shown(page, fake.records)
        page.wait_for_timeout(1500)  # until nothing moves
        after = page.evaluate(BARS)
        assert [bar["known"] for bar in after] == [False] + [True] * 6  # the same bars, moved on
        assert [bar["weight"] for bar in after] == pytest.approx([0.7**age for age in range(7)])
        for newer, older in pairwise(after):
            assert older["from"] < newer["from"]
            assert older["height"] == pytest.approx(0.7 * newer["height"], abs=0.5)  # in pixels
        page.get_by_text("Show as a table").first.click()
        rows = page.locator("#chain-table tbody tr")
        shown_rows = [" ".join(text.split()) for text in rows.all_inner_texts()]
        assert shown_rows[0] == "19,456 to 20,479 100 % 48.8 %"
        assert shown_rows[1] == "18,432 to 19,455 70 % 24 %"
        page.locator("#releases summary").first.click()
        expect(page.locator("#releases dl").first).to_contain_text("the model of fit 18")
        expect(page.locator("#releases dl").first).to_contain_text("Cost of the newest")


def fits(page: Page, width: int) -> bool:
    """Whether nothing is cut off to the side."""
    return bool(page.evaluate("document.documentElement.scrollWidth") == width)


BARS = """[...document.querySelectorAll('.plot .bar:not(.away)')].map((bar) => ({
  weight: Number(bar.style.getPropertyValue('--weight')),
  from: Number(bar.style.getPropertyValue('--from')),
  height: bar.getBoundingClientRect().height,
  known: bar.known === true,
})).sort((one, other) => other.from - one.from)"""


@pytest.mark.thorough
def test_a_fading_page_can_be_read(browser: Browser, axe: Any) -> None:
    fake = Fake(schedule=Fading(step=1024), records=20_000)
    with (
        served(fake) as at,
        opened(browser, f"{at}/#token={TOKEN}", bypass_csp=True, reduced_motion="reduce") as page,
    ):
        inside(page)
        for size in (DESKTOP, PHONE):
            page.set_viewport_size(size)
            page.wait_for_timeout(300)
            assert become(partial(fits, page, size["width"]))  # the charts are drawn anew
            assert page.evaluate(CONTRAST) == []
        assert axe.run(page).response["violations"] == []


@pytest.mark.thorough
def test_a_refitted_window_says_that_it_remembers_more(browser: Browser) -> None:
    fake = Fake(schedule=SlidingWindow(window=7168, step=1024, refit=True), records=20_000)
    with served(fake) as at, opened(browser, f"{at}/#token={TOKEN}") as page:
        inside(page)
        words = "a model of records 12,288 to 19,455, remembering older ones through the release"
        expect(page.locator("#stream-words")).to_contain_text(words)
        expect(page.locator(".plot .block")).to_have_count(1)
        expect(page.locator("#weight-words")).to_be_hidden()


@pytest.mark.thorough
def test_the_first_fading_model_comes_after_its_first_steps(browser: Browser) -> None:
    fake = Fake(schedule=Fading(step=1024, first=3), records=100)
    with served(fake) as at, opened(browser, f"{at}/#token={TOKEN}") as page:
        inside(page)
        expect(page.locator(".lanes")).to_contain_text("The first model comes with record 3,072")


@pytest.mark.thorough
def test_shows_no_ledger_that_is_older_than_the_newest_model(browser: Browser) -> None:
    """A release comes while the page is filled: after the ledger could have been asked for."""
    fake = Fake(records=50_000)

    def late(route: Route) -> None:
        time.sleep(0.3)
        fake.arrive(1024)
        route.continue_()

    with served(fake) as at, opened(browser, "about:blank") as page:
        page.route("**/v1/status", late, times=1)
        page.goto(f"{at}/#token={TOKEN}")
        inside(page)
        shown(page, 51_024)
        assert values(page, "#ledger-table")[1] == fake.ledger.posted


@pytest.mark.thorough
def test_before_the_first_release(browser: Browser) -> None:
    fake = Fake(records=3000)
    with served(fake) as at, opened(browser, f"{at}/#token={TOKEN}") as page:
        inside(page)
        expect(page.locator("#releases-words")).to_contain_text("None yet")
        expect(page.locator(".lanes")).to_contain_text("The first model comes with record 7,168")
        expect(page.locator("#quality-chart")).to_be_hidden()
        fake.arrive(5000)
        expect(page.locator("#releases li")).to_have_count(1)
        expect(page.locator(".lanes li")).to_have_count(3)


@pytest.mark.thorough
def test_finds_back_to_a_server_that_was_gone(browser: Browser) -> None:
    fake = Fake(records=20_000)
    with served(fake) as at:
        context = opened(browser, f"{at}/#token={TOKEN}")
        page = context.__enter__()
        inside(page)
    try:
        expect(page.locator("#connection")).to_have_text("Reconnecting")
        expect(page.locator("#promise")).to_be_visible()  # what was known stays
        fake.arrive(5000)
        with served(fake, port=int(at.rsplit(":", maxsplit=1)[1])):
            expect(page.locator("#connection")).to_have_text("Live")
            shown(page, 25_000)
    finally:
        context.__exit__(None, None, None)


@pytest.mark.thorough
def test_lists_thousands_of_releases_by_the_fifty(browser: Browser) -> None:
    fake = Fake(window=70, step=10, records=30_000)
    assert len(fake.released) > 2900
    with served(fake) as at, opened(browser, f"{at}/#token={TOKEN}") as page:
        inside(page)
        expect(page.locator("#releases li")).to_have_count(50)
        page.get_by_role("button", name="Show 50 older").click()
        expect(page.locator("#releases li")).to_have_count(100)
        numbers = page.eval_on_selector_all(
            "#releases li", "all => all.map(one => Number(one.dataset.number))"
        )
        last = len(fake.released) - 1
        assert numbers == list(range(last, last - 100, -1))
        assert len(values(page, "#ledger-table")) == 6


def test_downloads_with_the_token(page: Page) -> None:
    page.locator("#releases summary").first.click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download Weights").first.click()
    number = page.locator("#releases li").first.get_attribute("data-number")
    assert waiting.value.suggested_filename == f"release-{number}-weights.safetensors"
    assert waiting.value.path().read_text() == f"{number} weights.safetensors"


def test_predicts(page: Page) -> None:
    page.get_by_label("temperature").fill("warm")
    page.get_by_label("humidity").fill("0.5")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#prediction")).to_contain_text("“warm” is not a number")
    page.get_by_role("button", name="Fill in random numbers").click()
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#prediction strong")).to_have_text("east")
    expect(page.locator("#prediction dt").first).to_have_text("east")
    expect(page.locator("#prediction dd").first).to_contain_text("60.0 %")


def test_shows_scores_calibration_confusion_and_surveys(page: Page, fake: Fake) -> None:
    status = fake.status()
    expect(page.locator("#scores-measures")).to_contain_text("majority class 76.0 % ± 4.0")
    expect(page.locator("#scores-measures")).to_contain_text("0.480 ± 0.040")
    expect(page.locator("#scores-measures")).not_to_contain_text("AUC")  # more than two classes
    calibration = page.evaluate("document.querySelector('#calibration-chart').data[0]")
    assert (calibration["x"], calibration["y"]) == ([21], [20])
    assert calibration["error_y"]["array"] == [4]
    assert page.locator("#confusion-table td").count() == 16
    accuracy = page.evaluate("document.querySelector('#quality-chart').data")
    assert set(accuracy[3]["y"]) == {76}
    alarms = [point["at"] for point in status["quality"] if point["drift"]["alarm"]]
    assert accuracy[4]["x"] == alarms
    assert page.locator("#survey-table tbody tr").count() == len(status["surveys"])
    assert len(page.evaluate("document.querySelector('#survey-chart').data")) == 4 + 2
    expect(page.locator("#drift-words")).to_contain_text("12,288 differs in features (3.2 times")


@pytest.mark.parametrize(
    "found",
    [
        {"measure": "log_loss", "than_constant": "no better", "than_before": "worse"},
        {"measure": None, "than_constant": "too noisy to tell", "than_before": None},
        {"measure": "accuracy", "than_constant": "not compared", "than_before": "better"},
        None,
    ],
    ids=["no better", "too noisy", "without scores", "none"],
)
def test_says_whether_the_newest_model_beats_a_constant(
    browser: Browser, fake: Fake, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = fake.status()
    status["quality"][-1] = {**status["quality"][-1], "verdict": verdict_row(found)}
    monkeypatch.setattr(fake, "status", lambda: status)
    words = f"The newest one is {verdict_words(found)}." if found else ""
    with served(fake) as at, opened(browser, f"{at}/#token={TOKEN}") as page:
        inside(page)
        expect(page.locator("#quality-verdict")).to_have_text(words)
        if found:
            expect(page.locator("#quality-verdict")).to_be_visible()


def test_every_chart_has_a_table_that_says_the_same(page: Page, fake: Fake) -> None:
    for summary in page.get_by_text("as a table").all():
        summary.click()
    strip = page.locator("#strip-table tbody tr")
    points = page.evaluate("document.querySelector('#ledger-charts .chart').data[0].x.length")
    assert strip.count() == points - 1  # the chart ends with a point of its own
    assert page.locator("#quality-table tbody tr").count() == len(fake.released) - 1
    assert page.locator("#chain-table tbody tr").count() == len(fake.chain())
    for chart in page.locator(".chart").all():
        assert "table below says the same" in (chart.get_attribute("aria-label") or "")


@pytest.fixture(scope="module")
def axe() -> Any:
    """The rules of axe-core, which is what accessibility is audited with."""
    return pytest.importorskip("axe_playwright_python.sync_playwright").Axe()


@pytest.mark.thorough
def test_asking_for_a_token_has_no_fault_of_axe(browser: Browser, url: str, axe: Any) -> None:
    with opened(browser, url.split("#", maxsplit=1)[0], bypass_csp=True) as page:
        expect(page.locator("#token")).to_be_visible()
        assert axe.run(page).response["violations"] == []


@pytest.mark.thorough
def test_can_be_read(browser: Browser, url: str, axe: Any) -> None:
    """Nothing is cut off to the side, all text meets the contrast of WCAG AA, axe finds no fault.

    Axe is run inside the page, which the page's own policy refuses.
    """
    with opened(browser, url, bypass_csp=True, reduced_motion="reduce") as page:
        inside(page)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        for size in (DESKTOP, PHONE):
            for scheme in SCHEMES:
                page.set_viewport_size(size)
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(300)
                page.wait_for_function(  # the charts are drawn anew, however busy the machine is
                    "width => document.documentElement.scrollWidth === width", arg=size["width"]
                )
                assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
                become(lambda: page.evaluate(CONTRAST) == [])  # the charts take the new colours
                assert page.evaluate(CONTRAST) == []
        assert axe.run(page).response["violations"] == []


SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
CONTRAST = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((value) => value / 255)
      .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const under = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const bad = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const ink = light(parse(element.closest("svg") ? style.fill : style.color));
    const ground = light(under(element));
    const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (ratio < 4.5) bad.push([texts.currentNode.textContent, ratio.toFixed(2)]);
  }
  return bad;
}"""


@pytest.mark.thorough
def test_works_by_keyboard_alone(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        inside(page)
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        seen: list[str] = []
        for _ in range(60):
            page.keyboard.press("Tab")
            told = page.evaluate(
                """() => {
                  const one = document.activeElement;
                  if (one === document.body) return null;
                  return [one.id || one.name || one.tagName, getComputedStyle(one).outlineStyle,
                          (one.labels?.[0] ?? one).textContent || one.ariaLabel || ""];
                }"""
            )
            if told is None:
                break
            name, outline, text = told
            assert outline != "none", name
            assert text.strip(), name
            seen.append(name)
        assert seen.index("theme") < seen.index("temperature") < seen.index("humidity")
        page.locator("#theme").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        inside(page)
        page.locator("#releases summary").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#releases dl").first).to_be_visible()


@pytest.mark.thorough
def test_says_so_where_the_noise_has_a_seed(
    browser: Browser, url: str, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {**fake.status(), "private": False}
    monkeypatch.setattr(fake, "status", lambda: told)
    with opened(browser, url) as page:
        inside(page)
        expect(page.get_by_role("alert").first).to_contain_text("NOT PRIVATE")


def test_terms_are_explained_where_they_appear(page: Page) -> None:
    for name in ("epsilon", "share", "chain"):
        words = TERMS[name]
        expect(page.locator(f'abbr[title="{words}"]').first).to_be_visible()
    assert page.locator("abbr:not([title])").count() == 0
    page.get_by_text("What the words mean").click()
    assert page.locator("#terms dt").count() == len(TERMS)
    expect(page.locator("#terms")).to_contain_text(TERMS["ledger"])
    page.get_by_text("What the words mean").click()


def test_names_its_stream_columns_and_classes(page: Page) -> None:
    expect(page.locator("#task")).to_have_text(
        "Models of the stream “records” predict the class (north, east, south, west) "
        "from temperature, humidity."
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    "person",
    [
        Person(contributions=4),
        Person(contributions=1, period=1),
        Person(contributions=1200, period=365),
    ],
)
def test_says_that_persons_are_protected(browser: Browser, person: Person) -> None:
    fake = Fake(records=10_240, person=person)
    with served(fake) as at, opened(browser, f"{at}/#token={TOKEN}") as page:
        inside(page)
        expect(page.locator("#promise")).to_contain_text(f" about {whom(person)}.")
        expect(page.locator("#used")).to_have_text(
            paid_so_far(down(fake.ledger.worst().share), person)
        )
        expect(page.locator("#meaning")).to_have_text(meaning(1.0, 1e-6, person))
