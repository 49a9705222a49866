"""Results in a notebook: frames with the figures of the report, its charts, and texts as HTML."""

from __future__ import annotations

import pytest

import rm_emulator
from rm_emulator.api import Results
from rm_emulator.results import palette
from rm_emulator.results.chart import charts
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
        try:
            figure = results.plot(entry.name)
        except ValueError as error:
            assert "nothing that chart" in str(error)
        else:
            drawn += 1
            assert "$" not in str([trace.marker.color for trace in figure.data if "marker" in trace])
    assert drawn > 5


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
    assert (
        results._repr_html_().startswith("<p><b>No difference that one seed can show")
        or "sooner than" in results._repr_html_()
    )


def test_explanations_and_comparisons_are_shown_as_their_text(results: Results) -> None:
    told = rm_emulator.explain(results, results.jobs["id"][0], label="fair")
    assert told._repr_html_().startswith("<pre>job ")
    assert rm_emulator.compare(results, labels=["fifo", "sjf"])._repr_html_().startswith("<pre>B (sjf) relative to A")
