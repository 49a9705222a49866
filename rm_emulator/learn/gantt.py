"""A picture of an episode: nodes against time, every task a bar in its job's colour."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rm_emulator.results.perfetto import lanes

Pixels = NDArray[np.uint8]
WIDTH: Final = 960
_MOST_TALL: Final = 720
_LANE: Final = 8
#: The series colours of the report's light theme.
_COLOURS: Final = ("0b6fb8", "d1570c", "0b8f6b", "a8508a", "c08a00", "4aa3d8", "6b6b6b", "7a5c2e")
_RGB: Final = np.array([list(bytes.fromhex(colour)) for colour in _COLOURS], dtype=np.uint8)
_GROUND, _EDGE = 255, 225


class GanttBar(NamedTuple):
    """A task, or its hold on a node, from start to end in ms."""

    node: str
    job: str
    start: int
    end: int


def drawn(bars: Iterable[GanttBar], nodes: Iterable[str], end_ms: int) -> Pixels:
    """[height, WIDTH, 3]: all time up to `end_ms`, one row per node and task at once, nodes in the order given."""
    bars = sorted(bars)
    by_node = {node: list(of) for node, of in groupby(bars, key=lambda bar: bar.node)}
    jobs = dict.fromkeys(bar.job for bar in sorted(bars, key=lambda bar: (bar.start, bar.job)))
    colours = {job: _RGB[index % len(_RGB)] for index, job in enumerate(jobs)}
    rows: list[tuple[GanttBar, int]] = []
    offset = 0
    for node in nodes:
        mine = sorted(by_node.get(node, ()), key=lambda bar: (bar.start, bar.end, bar.job))
        lane = lanes([bar.start for bar in mine], [bar.end for bar in mine])
        rows += [(bar, offset + row) for bar, row in zip(mine, lane, strict=True)]
        offset += 1 + max(lane, default=0)
    tall = max(1, min(_LANE, _MOST_TALL // max(1, offset)))
    picture = np.full((max(1, offset) * tall, WIDTH, 3), _GROUND, dtype=np.uint8)
    picture[::tall] = _EDGE if tall > 1 else _GROUND
    for bar, row in rows:
        left, right = (WIDTH * at // max(1, end_ms) for at in (bar.start, bar.end))
        top = row * tall + (tall > 1)
        picture[top : (row + 1) * tall, left : max(right, left + 1)] = colours[bar.job]
    return picture
