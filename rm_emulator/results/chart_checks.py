"""The contract of charts, which `rm_emulator.testing.check_chart` tests for a built-in chart or a plug-in's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rm_emulator.results.chart import Cells, Chart, Figure, charts
from rm_emulator.results.palette import LIGHT, painted


def check_chart(name: str, shows: Path, nothing: Path | None = None, **settings: Any) -> None:
    """Draws a chart, by its name and with these settings, from run directories such as `rm_emulator.run` leaves.

    shows: a run that has something to show, nothing: one that has not (the chart is None). The figure is one of
    plotly's, axes of numbers say what they show, and the numbers stand beside it in a table.
    Raises AssertionError that names the chart and what is wrong.
    """
    drawing, params = charts.parse({"kind": name, **settings})
    chart = drawing(params).draw(Cells.of(shows))
    assert chart is not None, f"chart '{name}' has nothing to show of {shows}"
    for mistake in _mistakes(chart):
        raise AssertionError(f"chart '{name}': {mistake}")
    if nothing is not None:
        assert drawing(params).draw(Cells.of(nothing)) is None, f"chart '{name}' shows something of {nothing}"


def _mistakes(chart: Chart) -> Iterator[str]:
    texts = {"title": chart.title, "alt": chart.alt, "caption": chart.caption}
    yield from (f"it has no {what}" for what, text in texts.items() if not text.strip())
    if not chart.variants:
        yield "it has no figure: None says that there is nothing to show"
    if len(chart.variants) > 1 and not chart.choose:
        yield f"it has {len(chart.variants)} figures and does not say what is chosen among them (choose)"
    if len({variant for variant, _ in chart.variants}) < len(chart.variants):
        yield "two figures have one name"
    yield from (
        f"a row of its numbers has {len(row)} entries below {len(chart.head)} heads: {row}"
        for row in chart.rows
        if len(row) != len(chart.head)
    )
    if not chart.rows:
        yield "the numbers behind it are missing"
    for variant, figure in chart.variants:
        yield from (f"figure '{variant}': {mistake}" for mistake in _mistakes_of(figure))


def _mistakes_of(figure: Figure) -> Iterator[str]:
    import plotly.graph_objects as go

    try:
        whole = go.Figure(painted(figure, LIGHT)).to_plotly_json()
    except ValueError as error:
        yield f"plotly refuses it: {' '.join(str(error).split())[:400]}"
        return
    data, layout = whole["data"], whole["layout"]
    if not data:
        yield "it shows nothing"
    for side in ("x", "y"):
        used = {trace.get(f"{side}axis", side) for trace in data}
        axes = [layout.get(f"{side}axis{axis[1:]}", {}) for axis in used]
        yield from (f"its {side} axis has no title" for axis in axes if not _says(axis, data, side))


def _says(axis: Figure, data: list[Figure], side: str) -> bool:
    """Whether an axis says what it shows: by a title, words at its ticks, or none; a part of 1 needs no unit."""
    named = bool(axis.get("title", {}).get("text")) or axis.get("ticktext") is not None or "matches" in axis
    numbers = any(isinstance(value, int | float) for trace in data for value in trace.get(side, ()) or ())
    plain = axis.get("showticklabels") is False or axis.get("type") == "category" or not numbers
    return named or plain or "%" in axis.get("tickformat", "") or 1 <= max(axis.get("range", (0,))) < 1.1
