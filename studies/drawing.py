"""Shapes of the studies' figures as SVG, in the colours of the report on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

STYLE: Final = """<style>
svg { --card: #ffffff; --ink: #1d2126; --soft: #565f6a; --grid: #ebe8e1; --ours: #0b6fb8; --paper: #d1570c;
  font: 13px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  svg { --card: #1b1f24; --ink: #e8e6e1; --soft: #a5abb3; --grid: #292f36; --ours: #5cb3f0; --paper: #ff9350; }
}
text { fill: var(--ink); } .soft { fill: var(--soft); } .middle { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: var(--grid); } .paper { stroke: var(--paper); stroke-dasharray: 6 4; }
.level { stroke: var(--ink); stroke-dasharray: 1 3; } .ours { stroke: var(--ours); stroke-width: 2; fill: none; }
circle { fill: var(--ours); }
</style>"""


def line(kind: str, x: float, y: float, to_x: float, to_y: float) -> str:
    """A straight line; kind: its class in STYLE."""
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Words that begin at a point, or as the class `kind` says."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{words}</text>'


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """A line of ours through points."""
    return f'<polyline class="ours" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def sheet(label: str, width: int, height: int, shapes: Iterable[str]) -> str:
    """The whole picture on a card; label: what the picture shows, for who cannot see it."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" viewBox="0 0 {width} {height}">'
    card = f'<rect width="{width}" height="{height}" rx="6" fill="var(--card)"/>'
    return "\n".join([head, STYLE, card, *shapes, "</svg>"]) + "\n"
