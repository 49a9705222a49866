"""The common beginning of all API objects, reduced to the needs of scheduling."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from schedulers.objects.names import GROUP, RUN_SECONDS

_OURS: Final = f"{GROUP}/"


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """The owner of an object."""

    kind: str
    name: str
    uid: str
    controller: bool = False


class Meta(msgspec.Struct):
    """Object metadata. Times are RFC 3339 text as the API server gives them; only our own annotations are kept."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    generateName: str = ""
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone of an object without namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def created_ms(self) -> int | None:
        """Time of creation, ms since the epoch."""
        return to_ms(self.creationTimestamp)

    @property
    def owner(self) -> OwnerReference | None:
        """Its controller."""
        return next((owner for owner in self.ownerReferences if owner.controller), None)


class Stored(msgspec.Struct):
    """An object of the API server."""

    metadata: Meta

    def __post_init__(self) -> None:
        self.metadata.annotations = ours(self.metadata.annotations)

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone of an object without namespace."""
        return self.metadata.key


def ours(annotations: dict[str, str]) -> dict[str, str]:
    """Our annotations but the true run time: no policy must be able to peek.

    Foreign annotations are dropped: kubectl keeps a copy of the whole object in an annotation.
    """
    return {key: text for key, text in annotations.items() if key.startswith(_OURS) and key != RUN_SECONDS}


def whole_number(text: str) -> int | None:
    """A number from 0 on in a label or key; None for other text, or more than 9 digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def without_nulls(value: Any) -> Any:
    """JSON without nulls: absent means the same, and the template of a custom resource may hold either."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def label_value(text: str) -> str:
    """A name of the API server's (`alice@example.com`, `system:serviceaccount:ns:name`) in a label's characters."""
    return "_".join(_LABEL.findall(text))[:63].strip("._-")


#: More digits mean no index and no attempt; `int` itself fails beyond 4,300 digits.
_DIGITS: Final = 9
_LABEL: Final = re.compile(r"[A-Za-z0-9._-]+")
#: Characters of a fraction of a second that can matter.
_FRACTION: Final = 10
_STAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def to_ms(stamp: str | None) -> int | None:
    """RFC 3339 text as ms since the epoch; None for no text, or for other text."""
    match = _STAMP.fullmatch(stamp) if stamp else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, off_hours, off_minutes = match.groups()[6:]
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    if sign is not None:
        seconds -= (1 if sign == "+" else -1) * (int(off_hours) * 3600 + int(off_minutes) * 60)
    return seconds * 1000 + round(1000 * float((fraction or "0")[:_FRACTION]))


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 (H. Hinnant, days_from_civil); pure arithmetic, because the core may not see a clock."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
