"""Figures 5 and 11 of the SLearn paper from one run of the study: parts of pilots, load and gain over the days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rm_emulator import api
from rm_emulator.files import write_file
from studies.drawing import line, polyline, sheet, text

Floats = NDArray[np.float64]

#: One panel of Figure 5 each; Figure 11 has the first.
PRESETS: Final = ("2sigma-like", "google11-like", "google19-like")
_DAY_MS: Final = 86_400_000
#: Jobs of fewer tasks have too few pilots for their part to show.
WIDE: Final = 20
#: Median over so many jobs in a row.
_ROW: Final = 15
#: Of Figure 11, ms: ten of Table 5's windows.
WINDOW_MS: Final = 10_000_000
WIDTH, HEIGHT = 640, 150
_LEFT, _RIGHT = 48, 624


class Panel(NamedTuple):
    """One line over the days. ticks: values with a line across and their text; log: whether heights are logarithms."""

    title: str
    days: Floats
    values: Floats
    ticks: Sequence[float]
    log: bool = False


def pilots(results: api.Results, name: str, seed: int) -> Panel:
    """Figure 5: pilots of each wide job in % of its tasks, as the adaptive part has them."""
    jobs = results.jobs.filter((pl.col("label") == "slearn") & (pl.col("seed") == seed) & (pl.col("width") >= WIDE))
    jobs = jobs.filter(pl.col("pilots") > 0).sort("submit_ms", "id")
    part = (100 * jobs["pilots"] / jobs["width"]).rolling_median(_ROW, min_samples=1)
    return Panel(f"{name}: pilots, % of the tasks", jobs["submit_ms"].to_numpy() / _DAY_MS, part.to_numpy(), (2, 5, 10))


def load_and_gain(results: api.Results, slots: int, seed: int) -> list[Panel]:
    """Figure 11: by window the arrived work over what all slots do, and 3Sigma's mean JCT over SLearn's."""
    of = pl.col("seed") == seed, (pl.col("submit_ms") // WINDOW_MS).alias("window")
    mine, other = (
        results.jobs.filter((pl.col("label") == label) & of[0])
        .group_by(of[1])
        .agg(pl.col("work_ms").sum(), (pl.col("finish_ms") - pl.col("submit_ms")).mean().alias("jct_ms"))
        .sort("window")
        for label in ("slearn", "three_sigma")
    )
    days = mine["window"].to_numpy() * (WINDOW_MS / _DAY_MS)
    load, gain = mine["work_ms"].to_numpy() / (slots * WINDOW_MS), (other["jct_ms"] / mine["jct_ms"]).to_numpy()
    return [
        Panel("load of the jobs that arrive", days, load, (0.1, 1, 10), log=True),
        Panel("3Sigma's JCT over SLearn's, of the same jobs", days, gain, (0.5, 1, 2, 10), log=True),
    ]


def picture(panels: Sequence[Panel], label: str) -> str:
    """Panels below one another, as SVG."""
    shapes = [shape for number, panel in enumerate(panels) for shape in _drawn(panel, number * HEIGHT)]
    return sheet(label, WIDTH, HEIGHT * len(panels) + 12, shapes)


def _drawn(panel: Panel, top: float) -> list[str]:
    height = np.log if panel.log else np.asarray
    ends = height(np.asarray([*panel.values, *panel.ticks], dtype=float))
    low, span = float(ends.min()), float(np.ptp(ends)) or 1.0
    last = float(panel.days.max()) or 1.0

    def x(day: float) -> float:
        return _LEFT + day / last * (_RIGHT - _LEFT)

    def y(value: float) -> float:
        return top + HEIGHT - 26 - (float(height(value)) - low) / span * (HEIGHT - 56)

    shapes = [text(_LEFT, top + 18, panel.title)]
    for tick in panel.ticks:
        shapes += [line("grid", _LEFT, y(tick), _RIGHT, y(tick)), text(_LEFT - 6, y(tick) + 4, f"{tick:g}", "soft end")]
    shapes.append(polyline((x(day), y(value)) for day, value in zip(panel.days, panel.values, strict=True)))
    for hour in range(0, int(24 * last) + 1, 24 if last > 2 else 6):
        shapes.append(text(x(hour / 24), top + HEIGHT - 8, f"{hour} h", "soft middle"))
    return shapes


def written(measured: Mapping[str, api.Results], slots: int, docs: Path) -> dict[str, str]:
    """Draw both figures into the folder `docs`, of the first seed; returns their files' names by figure."""
    names = [name for name in PRESETS if name in measured]
    seed = next(iter(measured[names[0]].by_label["slearn"]))
    parts = picture([pilots(measured[name], name, seed) for name in names], "Part of pilots over the hours of a run.")
    both = picture(load_and_gain(measured[names[0]], slots, seed), "Load, and 3Sigma's JCT over SLearn's, over time.")
    found = {"pilots_figure": "adaptive-pilots.svg", "load_figure": "load-and-gain.svg"}
    for file, drawn in zip(found.values(), (parts, both), strict=True):
        write_file(docs / file, drawn)
    return found
