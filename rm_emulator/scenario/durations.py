"""Durations (`500ms`, `1s`, `1h30m`, plain numbers are seconds) and seeds (`1..5`) on their way in and out."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

from schedulers.core.errors import nearest

_UNIT_MS: Final[dict[str, int]] = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPELLED: Final[dict[str, str]] = {
    **dict.fromkeys(("msec", "msecs", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*([A-Za-z]*)\s*", re.ASCII)
_ACCEPTED: Final = "write a number of seconds, or a number with a unit: 500ms, 1.5s, 2m, 1h30m, 1d"
_MAX_MS: Final = 10**15
_MAX_SEEDS: Final = 10_000


def parse_duration(value: object) -> int:
    """Whole milliseconds, rounded half up. Raises ValueError with the value seen and the accepted forms."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"not a duration: {value!r} ({_ACCEPTED})")
    if isinstance(value, int | float):
        return _checked(_seconds(value), value)
    text = value.strip()
    if text.startswith("-"):
        raise ValueError(f"negative duration: '{value}' (a duration is never below zero)")
    total, at = Fraction(0), 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise ValueError(f"not a duration: '{value}' ({_ACCEPTED})")
        number, exponent, unit = match.groups()
        total += Fraction(number + (exponent or "")) * _unit(unit, value, alone=at == 0 and match.end() == len(text))
        at = match.end()
    if not text:
        raise ValueError(f"not a duration: '{value}' ({_ACCEPTED})")
    return _checked(total, value)


def _seconds(value: int | float) -> Fraction:
    if not math.isfinite(value):
        raise ValueError(f"not a duration: {value} ({_ACCEPTED})")
    if value < 0:
        raise ValueError(f"negative duration: {value} (a duration is never below zero)")
    return Fraction(str(value)) * 1000


def _unit(unit: str, value: str, *, alone: bool) -> int:
    if not unit and alone:
        return 1000
    if unit in _UNIT_MS:
        return _UNIT_MS[unit]
    near = _SPELLED.get(unit.lower()) or nearest(unit.lower(), _UNIT_MS)
    hint = f", did you mean '{near}'?" if near else ""
    raise ValueError(f"unknown unit '{unit}' in duration '{value}' (units: {', '.join(_UNIT_MS)}){hint}")


def _checked(ms: Fraction, value: object) -> int:
    if ms > _MAX_MS:
        raise ValueError(f"duration out of range: {value!r} (at most {_MAX_MS // _UNIT_MS['d']} days)")
    whole = int(ms + Fraction(1, 2))
    if whole == 0 and ms > 0:
        raise ValueError(f"duration too short: {value!r} (the clock counts whole milliseconds)")
    return whole


def show_duration(ms: int) -> str:
    """The shortest text that `parse_duration` reads as `ms`."""
    for unit in ("d", "h", "m", "s"):
        if ms and ms % _UNIT_MS[unit] == 0:
            return f"{ms // _UNIT_MS[unit]}{unit}"
    return f"{ms}ms" if ms else "0s"


def parse_seeds(value: object) -> list[int]:
    """`[1, 2, 3]`, `4`, `"1..5"` or `"1..3,7"` as a list of distinct whole numbers. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, str):
        seeds = [seed for part in value.split(",") for seed in _span(part.strip(), value)]
    elif isinstance(value, list):
        wrong = [s for s in value if isinstance(s, bool) or not isinstance(s, int)]
        if wrong:
            raise ValueError(f"not a seed: {wrong[0]!r} (seeds are whole numbers)")
        seeds = list(value)
    else:
        raise ValueError(f"not a list of seeds: {value!r} (write [1, 2, 3] or 1..5)")
    if not seeds:
        raise ValueError("no seeds (write [1, 2, 3] or 1..5)")
    if min(seeds) < 0:
        raise ValueError(f"negative seed: {min(seeds)} (seeds are whole numbers from 0)")
    twice = [s for i, s in enumerate(seeds) if s in seeds[:i]] if len(seeds) <= _MAX_SEEDS else []
    if twice:
        raise ValueError(f"seed {twice[0]} is given twice")
    return seeds


def _span(part: str, value: str) -> list[int]:
    match = re.fullmatch(r"(\d{1,18})(?:\s*\.\.\s*(\d{1,18}))?", part, re.ASCII)
    if match is None:
        raise ValueError(f"not a list of seeds: '{value}' (write [1, 2, 3] or 1..5)")
    first = int(match[1])
    last = int(match[2] or first)
    if last < first:
        raise ValueError(f"empty range of seeds: '{part}' (write the smaller number first)")
    if last - first >= _MAX_SEEDS:
        raise ValueError(f"too many seeds: '{part}' (at most {_MAX_SEEDS})")
    return list(range(first, last + 1))
