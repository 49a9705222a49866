"""What a browser makes of the report: content, not pixels."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser
CHARTS = 15


class Opened:
    """A page with what it logged and asked for."""

    def __init__(self, browser, path, **context):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri(), timeout=120_000)  # until its charts are drawn

    def ready(self):
        self.page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        return self


@pytest.fixture(scope="module")
def desktop(browser, report_path):
    opened = Opened(browser, report_path).ready()
    yield opened
    opened.context.close()


@pytest.fixture
def open_page(browser, report_path):
    opened: list[Opened] = []

    def open_with(path=report_path, **context):
        opened.append(Opened(browser, path, **context))
        return opened[-1]

    yield open_with
    for page in opened:
        page.context.close()


def test_the_comparison_has_a_row_per_label(desktop):
    labels = desktop.page.eval_on_selector_all("#comparison tbody tr", "rows => rows.map(r => r.dataset.label)")
    assert labels == ["slearn", "three_sigma", "fifo"]


def test_every_chart_is_drawn(desktop):
    assert desktop.page.locator(".plot[data-drawn=yes] .main-svg").first.is_visible()
    assert desktop.page.locator(".plot[data-drawn=yes]").count() == CHARTS


def test_curves_have_points(desktop):
    counts = desktop.page.eval_on_selector_all(
        "#jct .scatterlayer path.js-line", "lines => lines.map(l => l.getTotalLength())"
    )
    assert len(counts) == 3
    assert min(counts) > 100


def test_nothing_is_logged(desktop):
    assert desktop.messages == []


def test_nothing_is_asked_of_the_network(desktop):
    assert [url for url in desktop.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_page_has_one_title_and_its_headings(desktop):
    assert desktop.page.locator("h1").count() == 1
    assert desktop.page.locator("h2").all_inner_texts()[0] == "Results"


def test_every_chart_says_what_it_shows(desktop):
    names = desktop.page.eval_on_selector_all(".plot", "plots => plots.map(p => p.getAttribute('aria-label'))")
    assert len(set(names)) == CHARTS
    assert all(len(name) > 20 for name in names)


def test_the_numbers_behind_a_chart_open(desktop):
    details = desktop.page.locator("#bins details.numbers")
    details.locator("summary").click()
    assert details.locator("tbody tr").count() == 6  # two labels in three bins with jobs
    assert details.locator("table").is_visible()


def test_another_label_is_chosen_in_the_gantt_chart(desktop):
    before = desktop.page.eval_on_selector("#gantt .plot", "p => p.data[0].x.length + ':' + p.data[0].base[5]")
    desktop.page.select_option("#gantt select", label="fifo")
    desktop.page.wait_for_function(
        "before => { const p = document.querySelector('#gantt .plot');"
        " return p.data[0].x.length + ':' + p.data[0].base[5] !== before }",
        arg=before,
    )


def test_a_page_that_has_loaded_has_all_its_charts(open_page):
    page = open_page().page  # opening it waits for the event `load`, as a headless browser does that prints
    assert page.locator(".plot[data-drawn=yes]").count() == CHARTS


@pytest.mark.drawn(of=4)
def test_on_paper_every_chart_is_light_and_as_wide_as_the_sheet(open_page):
    page = open_page(color_scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    ask = "plots => plots.map(p => p.querySelector('.main-svg').width.baseVal.value)"
    assert set(page.eval_on_selector_all(".plot", ask)) == {640}
    assert page.get_attribute("html", "data-theme") == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.get_attribute("html", "data-theme") is None


@pytest.mark.drawn(of=4)
def test_on_paper_a_chart_takes_no_more_than_its_own_height(open_page):
    page = open_page().page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    ask = "plots => plots.filter(p => p.clientHeight > p.querySelector('.main-svg').height.baseVal.value + 1).length"
    assert page.eval_on_selector_all(".plot", ask) == 0


@pytest.mark.drawn(of=4)
def test_on_paper_no_figure_of_the_comparison_is_apart_from_its_unit(open_page):
    page = open_page().page
    page.set_viewport_size({"width": 688, "height": 1000})
    page.emulate_media(media="print")
    assert (
        page.eval_on_selector_all(
            "#comparison td > span", "all => all.filter(s => s.getClientRects().length > 1).length"
        )
        == 0
    )


@pytest.mark.drawn(of=4)
def test_a_printed_page_has_the_charts(desktop):
    page = desktop.page
    ask = "addEventListener('afterprint', () => { window.marks = document.querySelectorAll('.main-svg path').length })"
    page.evaluate(ask)
    assert page.pdf().startswith(b"%PDF")
    assert page.evaluate("window.marks") > 1000


def listed(page, table="waiters"):
    return page.locator(f"#{table} tbody tr:not([hidden])")


#: Of each table on paper: its id, width, the width of its place, rows to see, rows of the label shown.
_PAPER = """() => [...document.querySelectorAll("table")].filter(t => t.offsetParent).map(t =>
    [t.id, t.scrollWidth, t.parentElement.clientWidth, [...t.tBodies[0].rows].filter(r => r.offsetHeight > 0).length,
     [...t.tBodies[0].rows].filter(r => !r.hidden && !r.classList.contains("past")).length])"""


@pytest.mark.drawn(of=4)
def test_on_paper_a_table_has_all_its_rows_and_columns(open_page):
    page = open_page().page
    page.set_viewport_size({"width": 688, "height": 1000})  # A4 less its margins, in CSS pixels
    page.emulate_media(media="print")
    tables = page.evaluate(_PAPER)
    assert {table[0] for table in tables} >= {"comparison", "waiters"}
    for name, width, place, seen, rows in tables:
        assert (width <= place, seen) == (True, rows), name


@pytest.mark.drawn(of=4)
def test_on_paper_a_sweep_has_all_its_rows(open_page, swept_report):
    page = open_page(path=swept_report).page
    page.set_viewport_size({"width": 688, "height": 1000})
    page.emulate_media(media="print")
    (table,) = (table for table in page.evaluate(_PAPER) if table[0] == "comparison")
    assert (table[1] <= table[2], table[3]) == (True, 27)
    assert (
        page.evaluate("(b => b.scrollHeight - b.clientHeight)(document.querySelector('#comparison').parentElement)")
        == 0
    )


def test_the_list_of_jobs_shows_the_best_label_and_another_on_request(desktop):
    page = desktop.page
    assert page.eval_on_selector("#whose", "s => s.querySelector('[selected]').value") == "slearn"
    page.select_option("#whose", "slearn")
    assert listed(page).evaluate_all("rows => [...new Set(rows.map(r => r.dataset.of))]") == ["slearn"]
    page.select_option("#whose", "fifo")
    assert listed(page, "users").evaluate_all("rows => [...new Set(rows.map(r => r.dataset.of))]") == ["fifo"]


def test_jobs_are_found_by_all_words(desktop):
    page = desktop.page
    page.select_option("#whose", "fifo")
    page.fill("#find", "user-1 NO room")
    texts = listed(page).all_inner_texts()
    assert texts
    assert all("user-1" in text and "no room" in text for text in texts)
    assert page.inner_text("#found").startswith(f"{len(texts)} of ")
    page.fill("#find", "")


def test_nothing_found_is_said_in_numbers(desktop):
    page = desktop.page
    page.fill("#find", "nobody-of-this-name")
    assert listed(page).count() == 0
    assert page.inner_text("#found").startswith("0 of ")
    page.fill("#find", "")


def test_a_life_is_coloured_while_the_job_waits(desktop):
    desktop.page.select_option("#whose", "fifo")
    bar = listed(desktop.page).first.locator(".life")
    assert "linear-gradient" in bar.evaluate("b => getComputedStyle(b).backgroundImage")
    assert "no room" in bar.get_attribute("title")


def opened(page):
    return page.locator("#waiters tr.story")


def test_a_job_opens_and_closes_its_story_by_keyboard(desktop):
    page = desktop.page
    page.select_option("#whose", "fifo")
    button = listed(page).nth(1).locator("button.open")
    job = button.inner_text().split()[0]
    button.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert opened(page).get_attribute("id") == button.get_attribute("aria-controls")
    assert opened(page).locator("section").get_attribute("aria-label") == f"Story of {job} under fifo"
    button.press("Escape")
    assert opened(page).count() == 0
    assert button.get_attribute("aria-expanded") == "false"


def test_a_story_has_stages_waits_and_the_command_that_goes_on(desktop, report_path):
    page = desktop.page
    page.select_option("#whose", "fifo")
    row = listed(page).first
    row.locator(".life").click()
    assert opened(page).locator(".track .awaits").count() == 1
    assert opened(page).locator(".track .runs").count() >= 1
    assert "no room (no node has room for a task of it)" in opened(page).locator("ol li").first.inner_text()
    job = row.locator("button.open").inner_text().split()[0]
    command = f"rm-emulator explain {report_path.parent} {job} --label fifo --advise"
    assert opened(page).locator("pre").inner_text() == command
    page.select_option("#whose", "slearn")  # a story goes with its row
    assert opened(page).count() == 0


def test_every_row_of_the_gains_and_losses_opens_a_story(desktop):
    page = desktop.page
    page.select_option("#whose", "slearn")
    rows = listed(page, "gains")
    assert rows.count() >= 4
    for button in rows.locator("button.open").all():
        button.click()
        assert page.locator("#gains tr.story .track .runs").count() >= 1
        button.press("Escape")
        assert page.locator("#gains tr.story").count() == 0
    assert desktop.messages == []


def test_a_story_from_the_gains_names_the_row_s_job_and_times(desktop):
    page = desktop.page
    page.select_option("#whose", "slearn")
    row = listed(page, "gains").first
    job, *_, jct, _ = row.locator("> *").all_inner_texts()
    row.click()
    assert page.locator("#gains tr.story section").get_attribute("aria-label").startswith(f"Story of {job.split()[0]} ")
    assert f"JCT {jct}, " in page.locator("#gains tr.story p").first.inner_text()
    page.select_option("#whose", "fifo")  # a story goes with its row
    assert page.locator("#gains tr.story").count() == 0


def test_a_story_of_another_seed_says_so_and_its_command_too(desktop):
    page = desktop.page
    page.select_option("#whose", "slearn")
    row = listed(page, "gains").filter(has=page.locator("td:nth-child(5)", has_text="2")).first
    row.click()
    told = page.locator("#gains tr.story")
    assert told.locator("section").get_attribute("aria-label").endswith(" under slearn, seed 2")
    assert told.locator("pre").inner_text().endswith(" --label slearn --seed 2 --advise")
    row.locator("button.open").press("Escape")


def test_a_job_that_is_listed_twice_tells_the_same_story(desktop):
    page = desktop.page
    for label in ("slearn", "fifo"):
        page.select_option("#whose", label)
        among = {
            text.split()[0] for text in page.locator("#waiters tr[data-of]:not([hidden]) button").all_inner_texts()
        }
        for row in listed(page, "gains").filter(has=page.locator("td:nth-child(5)", has_text="1")).all():
            job = row.locator("button.open").inner_text().split()[0]
            if job in among:
                row.click()
                page.locator("#waiters tr[data-of]:not([hidden])", has=page.get_by_role("button", name=job)).click()
                assert page.inner_text("#gains tr.story section") == page.inner_text("#waiters tr.story section")
                return
    pytest.fail("no job of the gains is among the waiters")


def test_a_label_in_a_legend_chooses_the_jobs(desktop):
    page = desktop.page
    page.select_option("#whose", "slearn")
    page.locator("#jct .legendtoggle").nth(2).click()
    page.wait_for_function("document.getElementById('whose').value === 'fifo'")
    assert "fifo" in page.inner_text("#said")
    assert listed(page, "users").evaluate_all("rows => [...new Set(rows.map(r => r.dataset.of))]") == ["fifo"]


def test_a_label_in_the_comparison_chooses_the_jobs(desktop):
    page = desktop.page
    page.click("#comparison a[data-show=three_sigma]")
    assert page.input_value("#whose") == "three_sigma"
    assert page.url.endswith("#jobs")


@pytest.mark.drawn(of=4)
def test_a_point_of_a_sweep_opens_in_place_from_the_table_and_from_a_chart(open_page, swept_report):
    opened = open_page(path=swept_report).ready()
    page = opened.page
    page.locator("#comparison td:first-child a", has_text="5").first.click()
    assert page.locator("#point h3").inner_text() == "Point 5: count 2, tasks 8"
    assert page.locator("#point tbody td:first-child").all_inner_texts() == ["fifo", "fair", "las"]
    assert page.locator("#point p a").get_attribute("href") == "points/5/report.html"
    page.locator("#point button").click()
    place = page.locator("#best_label .scatterlayer .point").last
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#best_label .hoverlayer .hovertext")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("#best_label + #point")
    assert opened.messages == []


@pytest.mark.drawn(of=4)
def test_a_story_fits_on_a_phone(open_page):
    page = open_page(viewport={"width": 400, "height": 844}).page
    listed(page).first.locator("button.open").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = opened(page).locator("section").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400


@pytest.mark.drawn(of=4)
def test_a_table_too_wide_for_a_phone_says_that_it_scrolls(open_page):
    page = open_page(viewport={"width": 400, "height": 844}).page
    page.wait_for_selector(".scroll.more:has(#comparison)")
    box = page.locator(".scroll:has(#comparison)")
    assert "scroll sideways" in box.evaluate("b => getComputedStyle(b, '::after').content")
    assert box.evaluate("b => getComputedStyle(b).boxShadow") != "none"
    box.evaluate("b => b.scrollTo(b.scrollWidth, 0)")
    page.wait_for_selector(".scroll.back:not(.more):has(#comparison)")


@pytest.mark.drawn(of=4)
def test_the_toggle_changes_colours_and_charts(open_page):
    page = open_page(color_scheme="light").ready().page
    ask = (
        "() => [getComputedStyle(document.body).backgroundColor, document.querySelector('#jct .js-line').style.stroke]"
    )
    before = page.evaluate(ask)
    page.click("#theme")
    page.wait_for_function("stroke => document.querySelector('#jct .js-line').style.stroke !== stroke", arg=before[1])
    assert page.evaluate(ask)[0] != before[0]
    assert page.get_attribute("html", "data-theme") == "dark"


@pytest.mark.drawn(of=4)
def test_the_systems_dark_mode_is_followed(open_page):
    page = open_page(color_scheme="dark").page
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


@pytest.fixture(scope="module")
def resized(browser, report_path):
    """A page that was opened on a phone and may be given another width."""
    opened = Opened(browser, report_path, viewport={"width": 390, "height": 844}).ready()
    yield opened.page
    opened.context.close()


@pytest.mark.parametrize("width", [390, 360, 768, 1920])
@pytest.mark.drawn(of=4)
def test_the_page_fits_without_scrolling_sideways(resized, width):
    resized.set_viewport_size({"width": width, "height": 844})
    resized.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=5000)


def test_charts_follow_the_width_of_the_page(resized):
    resized.set_viewport_size({"width": 390, "height": 844})
    resized.wait_for_function(
        "[...document.querySelectorAll('.plot .svg-container')].every(b => b.getBoundingClientRect().right <= 390)",
        timeout=5000,
    )


def test_without_scripts_the_numbers_are_still_there(open_page):
    page = open_page(java_script_enabled=False).page
    assert "Charts need JavaScript" in page.inner_text("header")
    assert page.locator("#jct details.numbers tbody tr").count() == 3


def test_a_browser_that_cannot_unpack_shows_the_tables(browser, report_path):
    context = browser.new_context()
    context.add_init_script("delete window.DecompressionStream")
    page = context.new_page()
    page.goto(report_path.as_uri())
    page.wait_for_selector("#no-charts:not([hidden])")
    assert page.locator("#jct details.numbers table").is_visible()
    context.close()
