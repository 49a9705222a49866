"""Sets of task numbers as short texts, the way Kubernetes' indexed Jobs write them."""

from __future__ import annotations

from collections.abc import Collection


def show_indexes(indexes: Collection[int]) -> str:
    """`0-5,7` for {0, 1, 2, 3, 4, 5, 7}."""
    parts: list[str] = []
    ordered = sorted(indexes)
    start = 0
    for at, index in enumerate(ordered):
        if at + 1 == len(ordered) or ordered[at + 1] != index + 1:
            first = ordered[start]
            parts.append(str(first) if first == index else f"{first}-{index}")
            start = at + 1
    return ",".join(parts)


def read_indexes(text: str) -> set[int]:
    """The inverse of `show_indexes`; what is no index is left out."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return found
