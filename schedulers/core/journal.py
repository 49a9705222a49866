"""Who has to look again: ids of what changed, in order, and for each reader how far it has read.

The state writes down what a fact or a decision changed; whoever keeps something that follows from it (an order of jobs,
what was last said of each, the nodes that beat) has a cursor of its own, and takes nothing from the others by reading.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Final, Generic, TypeVar

T = TypeVar("T", str, int)

#: So many entries are kept at least before what everybody has read, and repetitions, are dropped.
LENGTH: Final = 1 << 14
#: So many different ids may be unread. After that those of what is gone are dropped.
UNREAD: Final = 100_000


class Cursor(Generic[T]):
    """One reader's place in a topic: what it has yet to read is entries[at:]."""

    __slots__ = ("at", "entries")

    def __init__(self, entries: list[T], at: int) -> None:
        self.entries: list[T] = entries
        self.at = at

    def read(self) -> Collection[T]:
        """What changed since the last reading, each id once, in the order of its first change."""
        entries, at = self.entries, self.at
        count = len(entries)
        if count == at:
            return ()
        self.at = count
        return entries[at:] if count == at + 1 else dict.fromkeys(entries[at:])


class Topic(Generic[T]):
    """Changes of one kind. note(id) writes one down: it is the list's own `append`, for it is called for every task."""

    __slots__ = ("_cursors", "entries", "longest", "note")

    def __init__(self) -> None:
        self.entries: list[T] = []
        self.note: Callable[[T], None] = self.entries.append
        self.longest = LENGTH
        self._cursors: list[Cursor[T]] = []

    def cursor(self) -> Cursor[T]:
        """A new reader, for whom everything up to now is read."""
        cursor = Cursor(self.entries, len(self.entries))
        self._cursors.append(cursor)
        return cursor

    def unread(self) -> Collection[T]:
        """What somebody has yet to read, each id once, in the order of its first change."""
        return dict.fromkeys(self.entries[min((cursor.at for cursor in self._cursors), default=len(self.entries)) :])

    def trim(self, is_there: Callable[[T], bool] | None = None) -> None:
        """Drop what everybody has read, and what somebody has not but once.

        is_there: when a reader is very far behind, ids of what is gone are dropped as well.
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
        entries[:] = kept
        self.longest = max(LENGTH, 2 * len(kept))


class Journal:
    """All changes that somebody reads.

    orders: jobs whose place in an order may have changed. reasons: jobs whose reason to wait may be another now; the
    scheduler and the policies write here too, of what they alone know. sizes: sizes that had no launchable task, or
    were at a limit, and now are not.
    """

    __slots__ = ("orders", "reasons", "sizes")

    def __init__(self) -> None:
        self.orders: Topic[str] = Topic()
        self.reasons: Topic[str] = Topic()
        self.sizes: Topic[int] = Topic()

    def trim(self, is_there: Callable[[str], bool]) -> None:
        """Drop what nobody will read. is_there: whether a job is live."""
        self.orders.trim(is_there)
        self.reasons.trim(is_there)
        self.sizes.trim()
