"""The answer of `simulate` as pictures: a fan of ends by job, and who ends later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from rm_emulator.forecasts.answers import Answer, Delay, Expected, JobAnswer, NewJob
from rm_emulator.results.chart import Chart, Figure
from rm_emulator.results.drawing import duration, line, rows_of, time_unit
from rm_emulator.results.palette import framed

#: Jobs of a picture, at most.
ROWS: Final = 40
#: Pixels of a row, and of title and axis.
ROW, EDGE = 22, 180
#: Headings of the tables behind the pictures.
_END_HEAD: Final = ("job", "start, median", "end, 10 %", "end, median", "end, 90 %")
_DELAY_HEAD: Final = ("job", "why", "later by (s): 10 %", "median", "90 %")
#: Job, start, end, colour.
_Row: TypeAlias = tuple[str, Expected | None, Expected, str]


def ends(answer: Answer) -> tuple[str, Figure]:
    """Title and figure: of each job a bar from the start to the end at 10 %, lighter to 90 %, a point at the median.

    Jobs asked about come first, then live jobs by the median of their end. A bar without an end goes to the edge.
    """
    # The years since the epoch would leave no room for the picture.
    since, axis = (answer.at_ms, "time from now") if answer.wall_clock else (0, "time")
    live = [job for job in answer.jobs if job.known and job.finish.p50_ms is not None]
    live.sort(key=lambda job: job.finish.p50_ms or 0)
    asked = [job for job in answer.asked if job.known and job.finish.p50_ms is not None]
    rows: list[_Row] = [
        *((job.job, _after(job.start, since), _after(job.finish, since), "$s1") for job in asked),
        *(
            (job.job, None if job.start is None else _after(job.start, since), _after(job.finish, since), "$s0")
            for job in live
        ),
    ]
    at_ms = answer.at_ms - since
    shown = rows[:ROWS]
    last = max((end.p90_ms or end.p50_ms or 0 for _, _, end, _ in shown), default=at_ms)
    divisor, unit = time_unit(last)
    left = f", {len(rows) - ROWS} more left out" if len(rows) > ROWS else "" if rows else ": no job has an answer"
    data = [*_bars(shown, at_ms, last, divisor), _medians([end for _, _, end, _ in shown], last, divisor)]
    return f"When jobs will end: 10, 50 and 90 % of {answer.draws} draws{left}", {
        "data": data,
        "layout": {
            "barmode": "overlay",
            "showlegend": False,
            "height": EDGE + ROW * max(3, len(shown)),
            "xaxis": {
                "title": {"text": f"{axis} ({unit})"},
                "range": [at_ms / divisor, 1.02 * last / divisor],
                "gridcolor": "$grid",
            },
            "yaxis": rows_of([job for job, _, _, _ in shown]),
        },
    }


def _after(time: Expected, since: int) -> Expected:
    """The times as ms after `since`."""
    return Expected(*(None if ms is None else ms - since for ms in (time.p10_ms, time.p50_ms, time.p90_ms)))


def _bars(shown: Sequence[_Row], at_ms: int, last: int, divisor: float) -> list[Figure]:
    """Bars of waiting, of running up to the end at 10 %, and from there to the end at 90 %."""
    parts = [
        ("waits", 0.15, [(at_ms, _median(start, at_ms)) for _, start, _, _ in shown]),
        ("runs", 1.0, [(_median(start, at_ms), end.p10_ms or last) for _, start, end, _ in shown]),
        ("10 to 90 %", 0.45, [(end.p10_ms or last, end.p90_ms or last) for _, _, end, _ in shown]),
    ]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": list(range(len(shown))),
            "base": [low / divisor for low, _ in bars],
            "x": [max(0, high - low) / divisor for low, high in bars],
            "marker": {"color": [row[3] for row in shown], "opacity": opacity, "line": {"width": 0}},
            "hovertemplate": "%{text}<extra></extra>",
            "text": [_words(job, start, end) for job, start, end, _ in shown],
            "textposition": "none",
        }
        for name, opacity, bars in parts
    ]


def _medians(shown: Sequence[Expected], last: int, divisor: float) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "median of the end",
        "x": [(end.p50_ms or last) / divisor for end in shown],
        "y": list(range(len(shown))),
        "marker": {"color": "$ink", "symbol": "line-ns-open", "size": 12},
        "hoverinfo": "skip",
    }


def delays(answer: Answer) -> tuple[str, Figure]:
    """Title and figure: by how much later each job ends because of a job or a change; below 0: sooner."""
    because = _because(answer)
    because.sort(key=lambda each: -abs(each[1].p50_ms))
    shown: Sequence[tuple[str, Delay]] = sorted(because[:ROWS], key=lambda each: -each[1].p50_ms)
    divisor, unit = time_unit(max((max(abs(d.p10_ms), abs(d.p90_ms)) for _, d in shown), default=0))
    left = f", {len(because) - ROWS} smaller ones left out" if len(because) > ROWS else ""
    bars: Figure = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(shown))),
        "x": [each.p50_ms / divisor for _, each in shown],
        "marker": {"color": ["$bad" if each.p50_ms > 0 else "$good" for _, each in shown]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [(each.p90_ms - each.p50_ms) / divisor for _, each in shown],
            "arrayminus": [(each.p50_ms - each.p10_ms) / divisor for _, each in shown],
            "color": "$soft",
            "thickness": 1.2,
        },
        "text": [f"{why}: {duration(abs(each.p50_ms))}" for why, each in shown],
        "textposition": "none",
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }
    return f"Who ends later, and who sooner: median, 10 to 90 %{left}", {
        "data": [bars],
        "layout": {
            "height": EDGE + ROW * max(3, len(shown)),
            "xaxis": {"title": {"text": f"later by ({unit})"}, "gridcolor": "$grid"},
            "yaxis": rows_of([each.job for _, each in shown]),
            "shapes": [line(x0=0, x1=0, y0=0, y1=1, yref="paper")],
        },
    }


def _because(answer: Answer) -> list[tuple[str, Delay]]:
    """Why a job ends later or sooner, and by how much."""
    found = [(f"because of {new.job}", each) for new in answer.asked for each in new.delays]
    return found + ([(answer.compared.change, each) for each in answer.compared.jobs] if answer.compared else [])


def _median(start: Expected | None, at_ms: int) -> int:
    return at_ms if start is None or start.p50_ms is None else start.p50_ms


def _words(job: str, start: Expected | None, end: Expected) -> str:
    low, middle, high = ("never" if ms is None else duration(ms) for ms in (end.p10_ms, end.p50_ms, end.p90_ms))
    begins = "" if start is None or start.p50_ms is None else f" starts at {duration(start.p50_ms)},"
    return f"{job}{begins} ends at {middle} (10 %: {low}, 90 %: {high})"


def charts(answer: Answer) -> dict[str, Chart]:
    """The pictures as charts of the report, by the names of the report's charts; delays where anybody is asked for."""
    how = "Pale: waits. Dark: runs, to the end at 10 %. Lighter: from there to the end at 90 %. Line: the median."
    made = {"ends": _chart(answer, how, *ends(answer), _END_HEAD, _end_rows(answer))}
    if answer.compared is not None or answer.asked:
        how = "Bar: the median over the draws. Line: from 10 to 90 %."
        made["delays"] = _chart(answer, how, *delays(answer), _DELAY_HEAD, _delay_rows(answer))
    return made


def _chart(
    answer: Answer, how: str, title: str, figure: Figure, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> Chart:
    layout = {name: value for name, value in figure["layout"].items() if name != "height"}
    said = f"{how} As asked at {duration(answer.at_ms)} under {answer.policy}, with {answer.draws} draws."
    shown = {**figure, "layout": layout}
    height = figure["layout"]["height"]
    return Chart(
        title=title, alt=title, caption=said, variants=(("", shown),), head=head, rows=tuple(rows), tall=height
    )


def _end_rows(answer: Answer) -> list[tuple[str, ...]]:
    jobs: list[NewJob | JobAnswer] = [*answer.asked, *answer.jobs]
    return [(job.job, "started" if job.start is None else _told(job.start)[1], *_told(job.finish)) for job in jobs]


def _delay_rows(answer: Answer) -> list[tuple[str, ...]]:
    return [
        (each.job, why, *(f"{ms / 1000:,.0f}" for ms in (each.p10_ms, each.p50_ms, each.p90_ms)))
        for why, each in _because(answer)
    ]


def _told(time: Expected) -> tuple[str, str, str]:
    low, middle, high = ("" if ms is None else duration(ms) for ms in (time.p10_ms, time.p50_ms, time.p90_ms))
    return low, middle, high


def page(answer: Answer) -> str:
    """The pictures as an HTML page that needs no network: ends, and who ends later where anybody does."""
    from plotly import graph_objects

    drawn = [ends(answer)]
    if answer.compared is not None or answer.asked:
        drawn.append(delays(answer))
    parts = [
        graph_objects.Figure(**framed(figure, title, dark=False)).to_html(
            full_html=False, include_plotlyjs=not number, div_id=f"picture-{number}"
        )
        for number, (title, figure) in enumerate(drawn)
    ]
    head = '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>When will jobs run?</title></head>\n'
    return f"{head}<body>\n{''.join(parts)}\n</body>\n</html>\n"
