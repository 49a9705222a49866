"""Queueing tables are of runs that do not grow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from studies.steady import grows, marked, warm_up

PAGES = sorted(Path(__file__).parents[2].glob("docs/results*.md"))


@pytest.mark.parametrize(
    ("quarters", "expected"),
    [
        ([(90, 100, 120, 140), (90, 100, 110, 138), (90, 100, 110, 142)], True),
        ([(50, 100, 100, 100), (60, 101, 99, 102)], False),  # cold at the beginning alone
        ([(100, 100, 101, 104), (100, 100, 101, 104)], False),  # up to 5 %
        ([(100, 100, 100, 140), (100, 100, 100, 80), (100, 100, 100, 110)], False),  # within the noise
        ([(100, 100, 100, 106)], True),  # one seed
    ],
)
def test_a_run_grows_if_its_last_quarter_is_above_its_second_beyond_noise_and_five_percent(
    quarters: list[tuple[float, float, float, float]], expected: bool
) -> None:
    assert grows(quarters) is expected


def test_a_fifth_of_the_jobs_comes_before_those_that_count() -> None:
    assert [warm_up(jobs) for jobs in (4, 5, 26, 200)] == [0, 1, 5, 40]


def test_a_figure_of_runs_that_grow_is_in_italics() -> None:
    assert marked("120 [110, 130]", [(90, 100, 120, 140)]) == "*120 [110, 130]*"
    assert marked("100 [99, 101]", [(50, 100, 100, 100)]) == "100 [99, 101]"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_a_page_with_figures_in_italics_says_that_these_runs_grow(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "*italics* grow" in text or not re.search(r"\| \*[\d.]+ \[[^|]+\]\* \|", text)
