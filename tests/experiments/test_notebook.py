"""Results in a notebook: frames with the figures of the report, its charts, and texts as HTML."""

from __future__ import annotations

from contextlib import suppress
from html import escape

import msgspec
import pytest

import rm_emulator
from rm_emulator.api import Results
from rm_emulator.results import headline, palette
from rm_emulator.results.chart import charts
from rm_emulator.results.figures import Summary
from schedulers.core.errors import UnknownName


@pytest.fixture(scope="module")
def results() -> Results:
    return rm_emulator.run("hello")


def test_a_job_has_its_times_in_seconds(results: Results) -> None:
    row = results.jobs.row(0, named=True)
    assert row["jct_s"] == (row["finish_ms"] - row["submit_ms"]) / 1000
    assert row["wait_s"] == (row["first_start_ms"] - row["submit_ms"]) / 1000


def test_every_chart_of_the_report_is_drawn_or_says_that_there_is_nothing(results: Results) -> None:
    drawn = 0
    for entry in charts:
        with suppress(ValueError):  # a small run has nothing for some charts
            figure = results.plot(entry.name)
            drawn += 1
            assert "$" not in str([trace.marker.color for trace in figure.data if "marker" in trace])
    assert drawn > 5


def test_a_chart_without_anything_to_show_says_so(results: Results) -> None:
    with pytest.raises(ValueError, match="nothing that chart 'plan"):
        results.plot("plan")


def test_a_variant_is_chosen_by_its_name(results: Results) -> None:
    assert results.plot("gantt", "fair") != results.plot("gantt", "fifo")
    with pytest.raises(ValueError, match="no variant 'nobody' \\(it has: fifo"):
        results.plot("gantt", "nobody")


def test_an_unknown_chart_is_refused_with_the_nearest_name(results: Results) -> None:
    with pytest.raises(UnknownName, match="gantt"):
        results.plot("gant")


def test_colours_are_painted_at_any_depth() -> None:
    assert palette.painted({"a": ["$s0", {"b": "$ink"}], "c": "$100"}, palette.LIGHT) == {
        "a": [palette.LIGHT["s0"], {"b": palette.LIGHT["ink"]}],
        "c": "$100",
    }


def test_a_notebook_shows_the_headline_above_the_table(results: Results) -> None:
    whole = msgspec.convert(results.summary, Summary)
    assert results._repr_html_().startswith(f"<p><b>{escape(headline.of(whole))}</b></p><table>")


def test_explanations_and_comparisons_are_shown_as_their_text(results: Results) -> None:
    told = rm_emulator.explain(results, results.jobs["id"][0], label="fair")
    assert told._repr_html_().startswith("<pre>Job ")
    assert rm_emulator.compare(results, labels=["fifo", "sjf"])._repr_html_().startswith("<pre>B (sjf) relative to A")
