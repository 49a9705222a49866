"""A streaming histogram of bounded size: the distribution of all values seen, in at most B bins.

Y. Ben-Haim and E. Tom-Tov, "A Streaming Parallel Decision Tree Algorithm", JMLR 11 (2010), section 2.1;
quantiles as in apache/hive:ql/src/java/org/apache/hadoop/hive/ql/udf/generic/NumericHistogram.java, which
is the implementation that SLearn's authors used.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import sub
from typing import Any


class Histogram:
    """Bins of (centre, count), centres ascending and distinct; exact until more than `bins` distinct values came.

    Equal gaps shrink at the lowest centre, where the sources draw at random: the same values in the same
    order give the same bins.
    """

    __slots__ = ("bins", "centres", "counts", "total")

    def __init__(self, bins: int = 80) -> None:
        self.bins = bins
        self.centres: list[float] = []
        self.counts: list[int] = []
        self.total = 0

    def add(self, value: float, count: int = 1) -> None:
        """Insert `value`, `count` times."""
        centres = self.centres
        at = bisect_left(centres, value)
        self.total += count
        if at < len(centres) and centres[at] == value:
            self.counts[at] += count
            return
        centres.insert(at, value)
        self.counts.insert(at, count)
        if len(centres) > self.bins:
            self._shrink()

    def merge(self, other: Histogram) -> None:
        """Insert all values of `other`, which stays unchanged."""
        weights: dict[float, int] = dict(zip(self.centres, self.counts, strict=True))
        for centre, count in zip(other.centres, other.counts, strict=True):
            weights[centre] = weights.get(centre, 0) + count
        self.centres = sorted(weights)
        self.counts = [weights[centre] for centre in self.centres]
        self.total += other.total
        if len(self.centres) > self.bins:
            self._shrink()

    def mean(self) -> float:
        """Mean of the values. Raises ValueError when empty."""
        return sum(map(float.__mul__, map(float, self.centres), map(float, self.counts))) / self._filled()

    def median(self) -> float:
        """Middle value, or the middle of the two middle values. Raises ValueError when empty."""
        half = self._filled() / 2
        before = 0
        for at, count in enumerate(self.counts):
            before += count
            if before > half:
                return self.centres[at]
            if before == half:
                return (self.centres[at] + self.centres[at + 1]) / 2
        return self.centres[-1]

    def quantile(self, q: float) -> float:
        """Hive's quantile: linear from bin to bin, `q` in [0, 1]. Raises ValueError when empty."""
        wanted = q * self._filled()
        before = 0
        for at, count in enumerate(self.counts):
            if before + count >= wanted:
                if at == 0:
                    return self.centres[0]
                left, right = self.centres[at - 1], self.centres[at]
                return left + (wanted - before) * (right - left) / count
            before += count
        return self.centres[-1]

    def power_mean(self, power: float) -> float:
        """(E[t^power])^(1/power): the value whose utility t^power equals the expected utility.

        All values have to be above 0 for a negative power. Raises ValueError when empty.
        """
        total = self._filled()
        utility = sum(count * centre**power for centre, count in zip(self.centres, self.counts, strict=True))
        return float((utility / total) ** (1 / power))

    def dump(self) -> list[Any]:
        """Plain data for `load`."""
        return [self.bins, self.centres.copy(), self.counts.copy()]

    @classmethod
    def load(cls, data: list[Any]) -> Histogram:
        """The histogram that `dump` described."""
        made = cls(data[0])
        made.centres, made.counts = [float(x) for x in data[1]], [int(n) for n in data[2]]
        made.total = sum(made.counts)
        return made

    def _filled(self) -> int:
        if not self.total:
            raise ValueError("an empty histogram has no mean, median or quantile")
        return self.total

    def _shrink(self) -> None:
        centres, counts = self.centres, self.counts
        gaps = list(map(sub, centres[1:], centres))
        while len(centres) > self.bins:
            at = gaps.index(min(gaps))
            both = counts[at] + counts[at + 1]
            centres[at] = (centres[at] * counts[at] + centres[at + 1] * counts[at + 1]) / both
            counts[at] = both
            del centres[at + 1], counts[at + 1], gaps[at]
            if at < len(gaps):
                gaps[at] = centres[at + 1] - centres[at]
            if at:
                gaps[at - 1] = centres[at] - centres[at - 1]
