"""The built documentation site: every link leads somewhere, the search finds what it should, pages fit a phone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from schedulers.core.policy import policies

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.nightly]
ROOT = Path(__file__).parents[2]
#: Pages of all kinds: prose, generated ones with wide tables, signatures of Python, pictures.
SHOWN = (
    "index",
    "scenario",
    "reference/policies",
    "reference/policies/capacity",
    "reference/policies/hdrf",
    "reference/commands",
    "reference/objects",
    "reference/metrics",
    "reference/python",
    "ideas/the-house",
    "ideas/heartbeats",
    "ideas/dag-plans",
    "ideas/shares",
    "ideas/architectures-in-pictures",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site. Without Sphinx or its theme the tests are skipped, on CI they fail."""
    for module in ("sphinx", "furo", "myst_parser"):
        try:
            __import__(module)
        except ImportError:
            message = f"{module} is missing: pip install -e '.[docs]'"
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", f"{folder}/.read", "docs", f"{folder}/html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


class Links(HTMLParser):
    """Links of a page, and the names in the page that a link may lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names = {"", "top"}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.names.add(str(value))
            elif name == "src" or (name == "href" and tag in ("a", "link")):
                self.links.append(str(value))


def test_no_link_inside_the_site_is_dead(site: Path) -> None:
    pages = {page.resolve(): Links(page) for page in site.rglob("*.html")}
    dead = []
    for page, links in pages.items():
        for link in links.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.exists() or (target in pages and unquote(parts.fragment) not in pages[target].names):
                dead.append(f"{page.relative_to(site.resolve())}: {link}")
    assert dead == []


def test_the_search_knows_every_page(site: Path) -> None:
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    sources = ROOT / "docs"
    pages = {
        page.relative_to(sources).with_suffix("").as_posix()
        for page in sources.rglob("*.md")
        if not page.name.endswith(".in.md")
    }
    assert pages <= set(index["docnames"])
    found = {
        number
        for numbers in index["terms"].values()
        for number in (numbers if isinstance(numbers, list) else [numbers])
    }
    assert [name for number, name in enumerate(index["docnames"]) if number not in found] == []


def test_every_policy_has_a_page_with_a_picture(site: Path) -> None:
    for entry in policies:
        page = (site / "reference" / "policies" / f"{entry.name}.html").read_text(encoding="utf-8")
        assert "<svg xmlns" in page, entry.name


@pytest.fixture(scope="module")
def phone(browser, site):
    """A page as wide as a phone."""
    context = browser.new_context(viewport={"width": 400, "height": 844})
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def desktop(browser, site):
    """A page as wide as a screen."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


@pytest.mark.parametrize(
    ("words", "expected"), [("hdrf", "reference/policies/hdrf.html"), ("reserve_after", "scenario.html")]
)
def test_the_search_finds(words: str, expected: str, desktop, site: Path) -> None:
    desktop.goto(f"{(site / 'search.html').as_uri()}?q={words}")
    desktop.wait_for_selector("#search-results li a")
    desktop.wait_for_function("/finished/i.test(document.querySelector('#search-results').innerText)")
    found = desktop.eval_on_selector_all("#search-results li a", "links => links.map(link => link.href)")
    assert any(re.search(rf"/{re.escape(expected)}([?#]|$)", link) for link in found), found


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("width", ["phone", "desktop"])
def test_a_page_does_not_scroll_sideways(name: str, width: str, site: Path, request: pytest.FixtureRequest) -> None:
    page = request.getfixturevalue(width)
    page.goto((site / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = """tables => tables
        .filter(table => table.getBoundingClientRect().right > innerWidth && !table.closest('.table-wrapper'))
        .map(table => table.innerText.slice(0, 80))"""
    assert page.eval_on_selector_all("article table", outside) == []


@pytest.mark.parametrize("name", [name for name in SHOWN if name.startswith(("ideas/", "reference/policies/"))])
def test_a_picture_is_as_wide_as_its_page_at_most_and_cuts_no_text(name: str, phone, site: Path) -> None:
    phone.goto((site / f"{name}.html").as_uri())
    cut = """pictures => pictures.flatMap(picture => {
        const edge = picture.getBoundingClientRect();
        return [...picture.querySelectorAll('text')].filter(text => {
            const box = text.getBoundingClientRect();
            return box.left < edge.left - 1 || box.right > edge.right + 1
                || box.top < edge.top - 1 || box.bottom > edge.bottom + 1;
        }).map(text => text.textContent);
    })"""
    assert phone.eval_on_selector_all("article svg[role=img]", cut) == []
    widths = phone.eval_on_selector_all("article svg[role=img]", "all => all.map(p => p.getBoundingClientRect().right)")
    assert widths
    assert max(widths) <= 400
