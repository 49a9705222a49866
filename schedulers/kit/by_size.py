"""An order of jobs by the sizes that they wait for: the jobs that a few sizes with room could serve, in order.

On a full cluster whatever ends leaves room for a few sizes, while thousands of jobs wait for others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedulers.core.state import JobState

Entry = tuple[tuple[Any, ...], str]
"""Key and id of a job."""


class BySize:
    """The waiting jobs by the size of each open stage, smallest key first."""

    __slots__ = ("_entries", "_lines")

    def __init__(self, jobs: Iterable[tuple[tuple[Any, ...], JobState]]) -> None:
        self._lines: dict[int, list[Entry]] = {}
        self._entries: dict[str, tuple[Entry, tuple[int, ...]]] = {}
        for key, job in jobs:
            self.put(job, key)

    def put(self, job: JobState, key: tuple[Any, ...]) -> None:
        """Insert, or move to where the key and the open stages belong."""
        entry, sizes = (key, job.id), tuple(dict.fromkeys(job.stages[index].size for index in job.open))
        old = self._entries.get(job.id)
        if old == (entry, sizes):
            return
        self.drop(job.id)
        self._entries[job.id] = entry, sizes
        for size in sizes:
            insort(self._lines.setdefault(size, []), entry)

    def drop(self, job: str) -> None:
        """Take a job out; nothing happens to a missing job."""
        if job not in self._entries:
            return
        entry, sizes = self._entries.pop(job)
        for size in sizes:
            line = self._lines[size]
            del line[bisect_left(line, entry)]
            if not line:
                del self._lines[size]

    def among(self, sizes: Collection[int]) -> Iterator[str]:
        """Ids of the jobs that wait for any of the sizes, in order; a size taken out of `sizes` meanwhile is skipped.

        The order must not change meanwhile.
        """
        heads = [(self._lines[size][0], size, 0) for size in sizes if size in self._lines]
        heapify(heads)
        last = None
        while heads:
            entry, size, at = heads[0]
            line = self._lines[size]
            if size in sizes and at + 1 < len(line):
                heapreplace(heads, (line[at + 1], size, at + 1))
            else:
                heappop(heads)
            if entry != last and size in sizes:
                last = entry
                yield entry[1]
