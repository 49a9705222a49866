"""Annotations of struct fields for readers of files: unit, bounds, and the key in the file.

A struct of the core or the engine is the only declaration of its block in a scenario: the fields are the file's keys.
Decoding of logs ignores the annotations, because an impossible fact is refused there with a reason, and must be
readable again when the log is replayed.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

#: Key of the annotations of `written` inside `msgspec.Meta.extra`.
WRITTEN: Final = "written"


def written(
    form: str | None = None, *, key: str | None = None, choices: tuple[str, ...] = (), **bounds: float | str
) -> msgspec.Meta:
    """How a field is written in files.

    form: form in the file instead of the type: 'duration', 'interval' (a duration above zero), 'bytes', 'rate',
    'decider' (a policy with predictor and placer), 'errors' and 'factors' (the lowest and the highest). key: name in
    the file; by default the field's own name, less the `_ms` of times. choices: the words accepted. bounds: gt, ge, lt,
    le, min_length, max_length and pattern, as in msgspec.Meta.
    """
    # In `extra`, which msgspec ignores: bounds in `Meta` itself would already refuse a fact of an old log.
    return msgspec.Meta(extra={WRITTEN: {"form": form, "key": key, "choices": choices, "bounds": bounds}})


#: What a name of a node, or of whom results tell, looks like.
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
#: Whole milliseconds, written with a unit (`1h30m`).
Duration = Annotated[int, written("duration")]
#: The same, above zero.
Interval = Annotated[int, written("interval")]
#: Bytes per second, above zero.
Rate = Annotated[int, written("rate")]
#: Some text.
Name = Annotated[str, written(min_length=1)]
#: At least 1, and at most the count in any cluster or workload.
Count = Annotated[int, written(ge=1, le=10_000_000)]
Probability = Annotated[float, written(ge=0, le=1)]
#: The bounds of the CRD of queues: shares are divided by weights, and have to stay finite.
Weight = Annotated[float, written(ge=1e-6, le=1e6)]
