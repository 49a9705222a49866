"""What a field of a struct says of itself to those who read it from a file: its unit, its bounds, its key there.

Where a scenario names what the core or the engine has a struct for, the struct is all there is: its fields are the
file's keys. Decoding of logs goes by none of this, because a fact that makes no sense is refused with a reason there,
and must be read again when the log is replayed.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

#: Key of what `written` says inside `msgspec.Meta.extra`.
WRITTEN: Final = "written"


def written(
    form: str | None = None, *, key: str | None = None, choices: tuple[str, ...] = (), **bounds: float | str
) -> msgspec.Meta:
    """How a field is written in files.

    form: what stands there instead of its type: 'duration', 'interval' (a duration above zero), 'bytes', 'rate',
    'decider' (a policy with what it works with), 'errors' and 'factors' (the lowest and the highest).
    key: its name there; without one the field's own, less the `_ms` of times. choices: the words accepted.
    bounds: gt, ge, lt, le, min_length, max_length and pattern, as in msgspec.Meta.
    """
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
#: At least 1, and at most what any cluster or workload has.
Count = Annotated[int, written(ge=1, le=10_000_000)]
Probability = Annotated[float, written(ge=0, le=1)]
Positive = Annotated[float, written(gt=0)]
