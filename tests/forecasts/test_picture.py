"""The answer as pictures for notebooks."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from rm_emulator.forecasts.answers import Answer, Delay, Expected, JobAnswer, NewJob
from rm_emulator.forecasts.api import Forecast
from rm_emulator.forecasts.picture import ROWS, page


def live(name: str, *ends: int | None, known: bool = True) -> JobAnswer:
    about = {"name": name, "user": "", "queue": "q", "submitted_ms": 0, "tasks": 2, "ended": 0, "running": 1}
    return JobAnswer(job=name, started_ms=0, start=None, finish=Expected(*ends), known=known, **about)


def forecast(*jobs: JobAnswer, asked: tuple[NewJob, ...] = ()) -> Forecast:
    return Forecast(Answer(at_ms=10_000, policy="fifo", draws=5, jobs=jobs, asked=asked))


NEW = NewJob(
    job="new",
    start=Expected(11_000, 12_000, 13_000),
    finish=Expected(20_000, 30_000, 50_000),
    known=True,
    nodes=(),
    delays=(Delay("late", 1000, 5000, 9000), Delay("soon", -3000, -2000, -1000)),
)


def test_ends_stand_in_order_of_their_medians_behind_the_job_asked_about() -> None:
    figure = forecast(live("b", 30_000, 40_000, 60_000), live("a", 20_000, 25_000, 26_000), asked=(NEW,)).plot()
    assert figure.layout.yaxis.ticktext == ("new", "a", "b")
    waits, runs, fan, median = figure.data
    assert (waits.base[0], waits.x[0]) == (10, 2)
    assert (runs.base[0], runs.x[0]) == (12, 8)
    assert (fan.base[2], fan.x[2]) == (30, 30)
    assert median.x == (30, 25, 40)


def test_an_end_that_is_not_answered_is_not_drawn_and_an_open_one_goes_to_the_edge() -> None:
    figure = forecast(
        live("unknown", None, None, None, known=False), live("never", 20_000, 30_000, None), live("b", 1, 2, 90_000)
    ).plot()
    assert figure.layout.yaxis.ticktext == ("b", "never")
    assert figure.data[2].x[1] == 70
    assert "90 %: never" in figure.data[2].text[1]


def test_jobs_that_find_no_room_are_counted_in_the_title() -> None:
    figure = forecast(*(live(f"j{n}", 20_000, 30_000 + n, 40_000) for n in range(ROWS + 3))).plot()
    assert len(figure.data[0].x) == ROWS
    assert ", 3 more left out" in figure.layout.title.text


def test_delays_have_the_most_delayed_first_and_their_range() -> None:
    figure = forecast(asked=(NEW,)).plot("delays")
    assert figure.layout.yaxis.ticktext == ("late", "soon")
    (bars,) = figure.data
    assert bars.x == (5, -2)
    assert (bars.error_x.array, bars.error_x.arrayminus) == ((4, 1), (4, 1))


def test_an_unknown_picture_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no picture 'x' \(there are: ends, delays\)"):
        forecast().plot(cast(Any, "x"))


def test_by_the_clock_of_a_cluster_times_count_from_now() -> None:
    now = 1_767_225_600_000
    answer = msgspec.structs.replace(
        forecast(live("a", now + 60_000, now + 90_000, None)).answer, at_ms=now, wall_clock=True
    )
    figure = Forecast(answer).plot()
    assert figure.layout.xaxis.title.text == "time from now (s)"
    assert figure.data[1].base[0] == 0
    assert figure.data[3].x == (90,)


def test_a_page_has_the_pictures_and_all_that_draws_them() -> None:
    written = page(forecast(live("a", 20_000, 25_000, 26_000), asked=(NEW,)).answer)
    assert written.count("Plotly.newPlot(") == 2
    assert "plotly.js v" in written
    assert 'src="http' not in written
    assert page(forecast(live("a", 20_000, 25_000, 26_000)).answer).count("Plotly.newPlot(") == 1


def test_a_picture_without_any_answer_says_so() -> None:
    assert "draws: no job has an answer" in page(forecast(live("a", None, None, None, known=False)).answer)
