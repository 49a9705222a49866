"""What a benchmark says: what `rm-emulator bench` makes its own rows of, which know whether a target is met."""

from __future__ import annotations

import msgspec


class Row(msgspec.Struct, kw_only=True):
    """One line. target: such as `<= 5`, of the ratio where there is one, else of the value.

    value: None for what cannot be measured here; `note` says why.
    """

    name: str
    value: float | None
    unit: str
    reference: float | None = None
    ratio: float | None = None
    target: str | None = None
    note: str = ""
