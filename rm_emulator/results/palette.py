"""Colours of the report and of charts in notebooks, by name: `$s0` in a chart is `s0` here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

LIGHT: Final = {
    "page": "#fbfaf7",
    "card": "#ffffff",
    "ink": "#1d2126",
    "soft": "#565f6a",
    "faint": "#a9afb6",
    "rule": "#e4e1d9",
    "grid": "#ebe8e1",
    "accent": "#0b63a5",
    "good": "#0a7a50",
    "bad": "#b3401a",
    "tint": "#f1eee6",
    "shade": "#0000004d",
    "s0": "#0b6fb8",
    "s1": "#d1570c",
    "s2": "#0b8f6b",
    "s3": "#a8508a",
    "s4": "#c08a00",
    "s5": "#4aa3d8",
    "s6": "#6b6b6b",
    "s7": "#7a5c2e",
}
DARK: Final = {
    "page": "#14171b",
    "card": "#1b1f24",
    "ink": "#e8e6e1",
    "soft": "#a5abb3",
    "faint": "#666d76",
    "rule": "#2d333a",
    "grid": "#292f36",
    "accent": "#6db8f2",
    "good": "#4fd1a1",
    "bad": "#ff9468",
    "tint": "#22272d",
    "shade": "#000000b3",
    "s0": "#5cb3f0",
    "s1": "#ff9350",
    "s2": "#38cfa0",
    "s3": "#e39ac8",
    "s4": "#f0c04a",
    "s5": "#a8d8ff",
    "s6": "#b5b5b5",
    "s7": "#cfae7b",
}
_NAME: Final = re.compile(r"\$([a-z]+\d?)")


def css(colours: Mapping[str, str]) -> str:
    """Declarations of CSS variables."""
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def painted(value: Any, colours: Mapping[str, str]) -> Any:
    """A chart's plain data with colours in place of their names, as the report's own script paints it."""
    match value:
        case str():
            name = _NAME.fullmatch(value)
            return colours.get(name[1], value) if name else value
        case dict():
            return {key: painted(each, colours) for key, each in value.items()}
        case list() | tuple():
            return [painted(each, colours) for each in value]
    return value


def framed(figure: Mapping[str, Any], title: str, *, dark: bool) -> dict[str, Any]:
    """Data and layout of a chart for a notebook: painted, with a title."""
    colours = DARK if dark else LIGHT
    made = painted(dict(figure), colours)
    paper = {"paper_bgcolor": colours["card"], "plot_bgcolor": colours["card"], "font": {"color": colours["ink"]}}
    return {"data": made["data"], "layout": {"title": {"text": title}, **paper, **made["layout"]}}
