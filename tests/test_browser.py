"""Reports in a real browser: Chromium without a window opens them from disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reid_vpr_eval.report import PictureOptions, write_report
from report_results import images, people, places

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium; where there is none, skip, but not where CI says there is."""
    found = next((path for name in _CHROMIUM if (path := shutil.which(name))), None)
    if found is None and os.environ.get("RVE_NEEDS_BROWSER"):
        pytest.fail("no Chromium, although this run needs one")
    if found is None:
        pytest.skip("no Chromium on this machine")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write people and places on one page."""
    folder = tmp_path_factory.mktemp("browser")
    return write_report([people(), places()], folder, [images(), images()])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page of one result."""
    options = PictureOptions(only_wrong=True, n=2)
    return write_report([people()], tmp_path_factory.mktemp("alone"), [images()], options=options)


@contextmanager
def opened(browser: Browser, page: Path, width: int = 1400, **more: Any) -> Iterator[Page]:
    """Open a page from disk; any word on the console and any request is a failure."""
    faults: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **more)
    tab = context.new_page()
    tab.set_default_timeout(20_000)
    tab.on("console", lambda message: faults.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: faults.append(f"error: {error}"))
    tab.on("request", lambda request: faults.append(request.url))
    tab.goto(page.as_uri())
    try:
        yield tab
    finally:
        context.close()
    asked = [fault for fault in faults if not fault.startswith("data:")]
    assert asked == [page.as_uri()]


def column(tab: Page, number: int) -> list[str]:
    """Return a column of the first table of queries, as it is shown."""
    cells = tab.locator(f"table.queries >> nth=0 >> tbody tr:visible td:nth-child({number})")
    return cells.all_inner_texts()


@pytest.mark.slow
def test_a_page_opens_sorts_filters_and_shows_its_pictures(browser: Browser, report: Path) -> None:
    with opened(browser, report) as tab:
        loaded = "[...document.images].map(one => [one.complete, one.naturalWidth > 0, one.alt])"
        pictures = tab.evaluate(loaded)
        assert len(pictures) > 100
        assert all(complete and there and alt for complete, there, alt in pictures)

        table = tab.locator("table.queries").first
        head = table.locator("th", has_text="AP").first
        number = 1 + table.locator("th").all_inner_texts().index(head.inner_text())
        before = column(tab, number)
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(tab, number) == sorted(before, key=float)
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert column(tab, number) == sorted(before, key=float, reverse=True)

        form = tab.locator("form.filter").first
        form.locator("select").select_option("wrong")
        wrong = int((~people().per_query["top1_correct"]).sum())
        assert form.locator("output").inner_text() == f"{wrong} of 12 rows"
        assert len(column(tab, 1)) == wrong
        form.locator("select").select_option("")
        form.locator("input").fill("q/11")
        assert [name.replace("\u200b", "") for name in column(tab, 1)] == ["q/11.png"]

        table.locator("tbody tr:visible button").click()
        strip = table.locator("tr.opened")
        assert strip.locator("img").count() >= 6
        assert "positives" in strip.inner_text()
        form.locator("input").fill("")
        assert table.locator("tr.opened").count() == 1
        head.locator("button").click()
        assert table.locator("tr.opened").count() == 0


@pytest.mark.slow
def test_all_that_a_pointer_does_a_keyboard_does(browser: Browser, report: Path) -> None:
    with opened(browser, report) as tab:
        tab.locator("form.filter input").first.focus()
        tab.keyboard.type("q/3")
        assert column(tab, 1) == ["q/3.png"]
        for _ in range(3):
            tab.keyboard.press("Backspace")
        tab.keyboard.press("Tab")
        tab.keyboard.press("ArrowDown")
        shown = tab.locator("form.filter output").first.inner_text()
        assert shown.endswith(" of 12 rows")
        tab.keyboard.press("ArrowUp")
        tab.keyboard.press("Tab")  # the region that scrolls
        assert tab.evaluate("document.activeElement.getAttribute('role')") == "region"
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.textContent") == "Query"
        tab.keyboard.press("Enter")
        assert tab.locator("th[aria-sort=ascending]").count() == 1
        assert column(tab, 1)[:2] == ["q/0.png", "q/1.png"]
        tab.keyboard.press("Space")
        assert tab.locator("th[aria-sort=descending]").count() == 1
        tab.locator("table.queries tbody button").first.focus()
        tab.keyboard.press("Enter")
        assert tab.evaluate("document.activeElement.ariaExpanded") == "true"
        assert tab.locator("tr.opened img").count() >= 6
        tab.keyboard.press("Space")
        assert tab.locator("tr.opened").count() == 0


@pytest.mark.slow
def test_the_focus_is_seen_wherever_it_goes(browser: Browser, alone: Path) -> None:
    with opened(browser, alone) as tab:
        seen = 0
        for _ in range(40):
            tab.keyboard.press("Tab")
            outline = tab.evaluate(
                "(() => { const style = getComputedStyle(document.activeElement);"
                " return [document.activeElement.tagName, style.outlineStyle,"
                " parseFloat(style.outlineWidth)]; })()"
            )
            if outline[0] == "BODY":
                break
            assert outline[1] != "none", outline
            assert outline[2] >= 1, outline
            seen += 1
        assert seen > 25


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 768, 1400])
def test_nothing_overflows(browser: Browser, report: Path, alone: Path, width: int) -> None:
    for page in (report, alone):
        with opened(browser, page, width) as tab:
            tab.locator("table.queries tbody button").first.click()
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width
            beyond = tab.evaluate(
                "[...document.querySelectorAll('main *')]"
                ".filter(one => !one.closest('.scroll, pre')"
                " && one.getBoundingClientRect().right > innerWidth + 0.5)"
                ".map(one => one.outerHTML.slice(0, 80))"
            )
            assert beyond == []


_CONTRAST = """
() => {
  const parsed = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map((v) => linear(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = parsed(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const out = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !one.checkVisibility()) continue;
    if (one.closest("script, style, template")) continue;
    const style = getComputedStyle(one);
    const [a, b] = [light(parsed(style.color)), light(behind(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    out.push([ratio, walker.currentNode.data.trim().slice(0, 40), one.className]);
  }
  return out;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(
    browser: Browser, report: Path, scheme: Any
) -> None:
    with opened(browser, report, color_scheme=scheme) as tab:
        found = tab.evaluate(_CONTRAST)
        assert len(found) > 200
        assert [one for one in found if one[0] < 4.5] == []
        page = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, page[4:-1].split(","))) < 200) == (scheme == "dark")


@pytest.mark.slow
def test_a_page_can_be_printed(browser: Browser, report: Path) -> None:
    with opened(browser, report) as tab:
        tab.emulate_media(media="print")
        for hidden in (".contents", "form.filter"):
            assert tab.locator(f"{hidden} >> visible=true").count() == 0
        clipped = "getComputedStyle(document.querySelector('.tall')).overflowY"
        assert tab.evaluate(clipped) == "visible"
        assert tab.pdf().startswith(b"%PDF-")


@pytest.mark.slow
def test_headings_regions_and_links_lead_somewhere(
    browser: Browser, report: Path, alone: Path
) -> None:
    for page in (report, alone):
        with opened(browser, page) as tab:
            levels = tab.evaluate(
                "[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(h => Number(h.tagName[1]))"
            )
            assert levels.count(1) == 1
            assert levels[0] == 1
            assert max(after - before for before, after in pairwise(levels)) <= 1
            lost = tab.evaluate(
                "[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
                ".filter(to => !to.startsWith('#') || !document.getElementById(to.slice(1)))"
            )
            assert lost == []
            nameless = tab.evaluate(
                "[...document.querySelectorAll("
                "'img, svg, [role=region], nav, section, input, select')]"
                ".filter(one => !(one.alt || one.ariaLabel || one.ariaHidden === 'true'"
                " || one.getAttribute('aria-labelledby') || one.labels?.length))"
                ".map(one => one.outerHTML.slice(0, 80))"
            )
            assert nameless == []
            tab.locator("nav.contents a", has_text="Queries").first.click()
            top = tab.locator("[id$=-queries]").first.bounding_box()
            assert top is not None
            assert 0 <= top["y"] < 300


@pytest.mark.slow
def test_a_page_without_scripts_still_tells_everything(browser: Browser, report: Path) -> None:
    with opened(browser, report, java_script_enabled=False) as tab:
        assert tab.locator("table.queries >> nth=0 >> tbody tr").count() == 12
        assert tab.locator("form.filter >> visible=true").count() == 0
