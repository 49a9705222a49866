"""`spec.sweep`: settings with several values each; every combination of values is a point of the grid."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from rm_emulator.issues import did_you_mean, show_value
from rm_emulator.scenario.paths import Keys, parse_path, put
from schedulers.core.errors import nearest

#: More cells than this are more likely a slip than a wish: a second each are three hours.
CELLS: Final = 10_000
#: What may be swept: the rest of a spec is about the grid as a whole.
BLOCKS: Final = ("cluster", "queues", "workload", "policies")


class Mistake(NamedTuple):
    """A mistake of an axis."""

    path: Keys
    """Path inside the document."""
    message: str
    hint: str = ""
    key: bool = False
    """Whether the key is meant, not its value."""


class Nowhere(ValueError):
    """A path that leads nowhere in the scenario. axis: the path as written."""

    def __init__(self, axis: str, why: str) -> None:
        self.axis = axis
        super().__init__(why)


class Point(NamedTuple):
    """A combination of values."""

    number: int
    """From 1; 0 without a sweep."""
    values: Mapping[str, Any]
    """Values by path as written."""
    chosen: Sequence[int]
    """Index of each value in its axis's list."""

    @property
    def moved(self) -> dict[Keys, Keys]:
        """Where a swept setting is in the scenario -> where its value is written."""
        return {
            of_spec(axis): ("spec", "sweep", axis, index) for axis, index in zip(self.values, self.chosen, strict=True)
        }

    def applied(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The scenario at the point; `data` stays unchanged. Raises Nowhere."""
        # Without the axes, which may have thousands of values: nothing is put there.
        spec = {key: block if key == "sweep" else copy.deepcopy(block) for key, block in data["spec"].items()}
        made = {**data, "spec": spec}
        for axis, value in self.values.items():
            try:
                put(made, of_spec(axis), copy.deepcopy(value))
            except ValueError as error:
                raise Nowhere(axis, str(error)) from None
        return made


def written(data: Any) -> Mapping[str, Sequence[Any]]:
    """The axes of a document as written; {} without axes, or with axes of a wrong form."""
    spec = data.get("spec") if isinstance(data, dict) else None
    sweep = spec.get("sweep") if isinstance(spec, dict) else None
    right = isinstance(sweep, dict) and all(isinstance(k, str) and isinstance(v, list) for k, v in sweep.items())
    return sweep if isinstance(sweep, dict) and right else {}


def points(sweep: Mapping[str, Sequence[Any]]) -> list[Point]:
    """All combinations, the last axis fastest; without axes a single point of number 0."""
    if not sweep:
        return [Point(0, {}, ())]
    chosen = product(*(range(len(values)) for values in sweep.values()))
    return [
        Point(number, {axis: sweep[axis][i] for axis, i in zip(sweep, index, strict=True)}, index)
        for number, index in enumerate(chosen, start=1)
    ]


def of_spec(axis: str) -> Keys:
    """The path of an axis from the top of the document. Raises ValueError."""
    return ("spec", *parse_path(axis))


def mistakes(sweep: Mapping[str, Sequence[Any]], changed: Iterable[Keys]) -> Iterator[Mistake]:
    """Mistakes of the axes by themselves. changed: settings given by an option."""
    count = math.prod(len(values) for values in sweep.values())
    if count > CELLS:
        yield too_many(f"{count:,} points")
        return
    paths: dict[str, Keys] = {}
    for axis, values in sweep.items():
        at = ("spec", "sweep", axis)
        try:
            path = of_spec(axis)
        except ValueError as error:
            yield Mistake(at, str(error).replace("spec.policies", "policies"), key=True)
            continue
        yield from _wrong_place(at, path)
        for other, of_other in paths.items():
            if path[: len(of_other)] == of_other or of_other[: len(path)] == path:
                yield Mistake(at, f"'{axis}' and '{other}' set the same setting: sweep one of them", key=True)
        for given in changed:
            if given[: len(path)] == path:
                yield Mistake(given, f"'{axis}' is swept: set spec.sweep[\"{axis}\"] to a list of values instead")
        paths[axis] = path
        there = set[str]()
        for index, value in enumerate(values):
            if _key(value) in there:
                yield Mistake((*at, index), f"{show_value(value)} is there twice")
            there.add(_key(value))
        if not values:
            yield Mistake(at, "is empty: expected at least one value")


def too_many(what: str) -> Mistake:
    """More cells than are accepted."""
    return Mistake(("spec", "sweep"), f"{what} (expected at most {CELLS:,} runs)", key=True)


def _wrong_place(at: Keys, path: Keys) -> Iterator[Mistake]:
    block = path[1] if len(path) > 1 else ""
    if block == "spec":
        yield Mistake(at, "a path of a sweep begins below 'spec', such as workload.load", key=True)
    elif path == ("spec", "policies"):
        yield Mistake(at, "policies are compared at every point: sweep a setting of one, policies[0].NAME", key=True)
    elif block not in BLOCKS:
        hint = did_you_mean(nearest(str(block), BLOCKS))
        yield Mistake(at, f"'{block}' cannot be swept (accepted: paths below {', '.join(BLOCKS)})", hint, key=True)


def _key(value: Any) -> str:
    """The same for equal values."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return json.dumps(float(value) if number else value, sort_keys=True, default=str)
