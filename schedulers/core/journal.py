"""Ids of changed jobs and sizes, in order, and for each reader the place reached so far.

The state writes down every change. A reader keeping something derived (an order of jobs, the last reason of each job,
the nodes with a beat) has a cursor of its own, so that no reader takes entries away from another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Final, Generic, TypeVar

T = TypeVar("T", str, int)

#: Number of entries kept before entries read by all, and repetitions, are dropped.
LENGTH: Final = 1 << 14
#: Number of different unread ids kept before ids without a live object are dropped.
UNREAD: Final = 100_000


class Cursor(Generic[T]):
    """A reader's place in a topic: unread entries are entries[at:]."""

    __slots__ = ("at", "entries")

    def __init__(self, entries: list[T], at: int) -> None:
        self.entries: list[T] = entries
        self.at = at

    def read(self) -> Collection[T]:
        """Ids changed since the last reading, each id once, in the order of its first change."""
        entries, at = self.entries, self.at
        count = len(entries)
        if count == at:
            return ()
        self.at = count
        # A dict keeps the first of each id in order; a single entry, the usual case, needs no dict.
        return entries[at:] if count == at + 1 else dict.fromkeys(entries[at:])


class Topic(Generic[T]):
    """Changes of a single kind. note(id) writes down a change."""

    __slots__ = ("_cursors", "entries", "longest", "note")

    def __init__(self) -> None:
        self.entries: list[T] = []
        # The list's own `append` instead of a method: every task calls `note` several times.
        self.note: Callable[[T], None] = self.entries.append
        self.longest = LENGTH
        self._cursors: list[Cursor[T]] = []

    def cursor(self) -> Cursor[T]:
        """A new reader, for whom everything up to now is read."""
        cursor = Cursor(self.entries, len(self.entries))
        self._cursors.append(cursor)
        return cursor

    def unread(self) -> Collection[T]:
        """Ids unread by some reader, each id once, in the order of its first change."""
        return dict.fromkeys(self.entries[min((cursor.at for cursor in self._cursors), default=len(self.entries)) :])

    def trim(self, is_there: Callable[[T], bool] | None = None) -> None:
        """Drop entries read by all readers, and repetitions.

        is_there: when a reader is very far behind, ids without a live object are dropped as well.
        """
        entries = self.entries
        kept: list[T] = []
        moved: dict[int, int] = {}
        for begin, end in pairwise(sorted({len(entries), *(cursor.at for cursor in self._cursors)})):
            moved[begin] = len(kept)
            kept += dict.fromkeys(entries[begin:end])
            if len(kept) > UNREAD and is_there is not None:
                kept[moved[begin] :] = filter(is_there, kept[moved[begin] :])
        moved[len(entries)] = len(kept)
        for cursor in self._cursors:
            cursor.at = moved[cursor.at]
        # In place, because cursors and the bound `append` hold this very list.
        entries[:] = kept
        # Twice as long before the next trimming, so that trimming costs O(1) per entry on average.
        self.longest = max(LENGTH, 2 * len(kept))


class Journal:
    """All changes with readers."""

    __slots__ = ("orders", "reasons", "sizes")

    def __init__(self) -> None:
        # Jobs with a possibly changed place in an order.
        self.orders: Topic[str] = Topic()
        # Jobs with a possibly changed reason to wait; the scheduler and policies write here too.
        self.reasons: Topic[str] = Topic()
        # Sizes with launchable tasks after a time without, and sizes no longer at a limit.
        self.sizes: Topic[int] = Topic()

    def trim(self, is_there: Callable[[str], bool]) -> None:
        """Drop entries nobody will read. is_there: whether a job is live."""
        self.orders.trim(is_there)
        self.reasons.trim(is_there)
        self.sizes.trim()
