"""Regression trees as Breiman et al. (1984) grow them, best split first, with thresholds for people to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schedulers.learned.graph import Doubles, Ints
from schedulers.learned.tree import Tree, TreeSplit

#: Number of thresholds tried for each fact, at equal shares of its values.
_THRESHOLDS: Final = 80


class _Leaf:
    """Rows of a leaf, their best split, and, when the leaf was split, the two leaves.

    gain: by how much the split makes squared errors smaller. fact, bin: rows up to this bin of the fact go one way.
    """

    def __init__(self, rows: Ints, binned: NDArray[np.uint8], targets: Doubles, least: int) -> None:
        self.rows = rows
        self.gain, self.fact, self.bin = 0.0, 0, 0
        self.parts: list[_Leaf] = []
        own = targets[rows]
        whole = own.sum(axis=0)
        for fact, bins in enumerate(binned[:, rows]):
            counts = np.bincount(bins).cumsum()[:-1]
            if not len(counts):
                continue
            sums = np.stack([np.bincount(bins, column) for column in own.T]).cumsum(axis=1)[:, :-1]
            others = len(rows) - counts
            may = (counts >= least) & (others >= least)
            with np.errstate(divide="ignore", invalid="ignore"):
                gains = (sums**2).sum(axis=0) / counts + ((whole[:, None] - sums) ** 2).sum(axis=0) / others
            gains = np.where(may, gains, 0.0) - (whole**2).sum() / len(rows)
            found = int(gains.argmax())
            if gains[found] > self.gain:
                self.gain, self.fact, self.bin = float(gains[found]), fact, found


def grow(facts: Doubles, targets: Doubles, leaves: int, least: int, value: Callable[[Doubles], float]) -> Tree:
    """A tree with at most `leaves` leaves, of at least `least` rows each.

    facts: [rows, facts]. targets: [rows, targets]; splits make the sum of squared errors small. value: number at a leaf
    from the mean of its targets; a branch with equal numbers at all leaves becomes one leaf.
    """
    edges = [_edges(column) for column in facts.T]
    binned = np.stack([np.searchsorted(e, column) for e, column in zip(edges, facts.T, strict=True)]).astype(np.uint8)
    root = _Leaf(np.arange(len(facts)), binned, targets, least)
    fringe = [root]
    while len(fringe) < leaves:
        best = max(fringe, key=lambda leaf: leaf.gain)
        if best.gain <= 0:
            break
        goes = binned[best.fact, best.rows] <= best.bin
        best.parts = [_Leaf(rows, binned, targets, least) for rows in (best.rows[goes], best.rows[~goes])]
        fringe = [leaf for leaf in fringe if leaf is not best] + best.parts
    return _tree(root, targets, edges, value)


def _edges(column: Doubles) -> Doubles:
    """Thresholds of three digits: rows up to one of them, and rows above."""
    shares = np.unique(np.quantile(column, np.linspace(0, 1, _THRESHOLDS + 1)[:-1]))
    return np.unique([float(f"{edge:.3g}") for edge in shares])


def _tree(leaf: _Leaf, targets: Doubles, edges: list[Doubles], value: Callable[[Doubles], float]) -> Tree:
    if not leaf.parts:
        return value(targets[leaf.rows].mean(axis=0))
    then, other = (_tree(part, targets, edges, value) for part in leaf.parts)
    if then == other:
        return then
    return TreeSplit(leaf.fact, float(edges[leaf.fact][leaf.bin]), then, other)
