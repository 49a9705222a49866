"""The kinds of known-answer cases. One decorated function makes a kind known; the runner does the rest.

A function gets one case as plain data and yields its checks. What a case asks for and this program does not
model is said with `Unsupported`: the runner prints SKIP with the reason, so that nothing passes silently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from schedulers.core.registry import discover

Case = Mapping[str, Any]

#: Keys that tell of a case without changing its answer.
ABOUT: Final = frozenset({"id", "name", "kind", "model", "source", "src", "origin", "note", "derived", "published"})


class Unsupported(Exception):
    """A case, or one check of it, that needs something that is not modelled; the message says what."""


class Malformed(Exception):
    """A case that makes no sense: a missing key, a value of the wrong type. The message says which."""


class Check(msgspec.Struct, frozen=True):
    """One comparison. name: appended to the case's id after a slash, '' for a case of one check."""

    name: str
    expected: Any
    got: Any
    tolerance: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether what came out is what was expected."""
        return _equal(self.expected, self.got, self.tolerance)


class Skip(msgspec.Struct, frozen=True):
    """One check that is not supported, and why."""

    name: str
    why: str


Checks = Iterator[Check | Skip]


class Kind(msgspec.Struct, frozen=True):
    """How to run the cases of one kind. keys: what a case may have beyond `ABOUT`; anything else is a SKIP."""

    name: str
    keys: frozenset[str]
    run: Callable[[Case], Checks]


_KINDS: Final[dict[str, Kind]] = {}


def kind(name: str, keys: Collection[str]) -> Callable[[Callable[[Case], Checks]], Callable[[Case], Checks]]:
    """Function decorator: make a kind of case known."""

    def add(function: Callable[[Case], Checks]) -> Callable[[Case], Checks]:
        _KINDS[name] = Kind(name, frozenset(keys), function)
        return function

    return add


def known() -> Mapping[str, Kind]:
    """All kinds by name."""
    discover("rm_emulator.known_answers.kinds")
    return _KINDS


def only(part: Mapping[str, Any], keys: Collection[str], what: str) -> None:
    """Raise Unsupported when a part of a case has keys that its kind does not know."""
    for key in part:
        if key not in keys:
            raise Unsupported(f"{what} '{key}' is not supported")


def values(
    expected: Mapping[str, Any], ways: Mapping[str, Callable[[], Any]], *, under: str = "", tolerance: float = 0.0
) -> Checks:
    """A check of each value by the way of its name; one without a way, or whose way says so, is skipped by itself.

    under: stands before the names.
    """
    for name, value in expected.items():
        try:
            if name not in ways:
                raise Unsupported(f"value {name} is not supported")
            yield Check(under + name, value, ways[name](), tolerance)
        except Unsupported as why:
            yield Skip(under + name, str(why))


def _equal(expected: Any, got: Any, tolerance: float) -> bool:
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return set(expected) == set(got) and all(_equal(expected[k], got[k], tolerance) for k in expected)
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        return len(expected) == len(got) and all(map(lambda e, g: _equal(e, g, tolerance), expected, got))
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return abs(expected - got) <= tolerance
    return bool(expected == got)
