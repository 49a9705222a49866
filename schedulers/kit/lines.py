"""Lines of tasks at nodes: each waiting task was assigned to a node, and starts there at its turn.

Turns are numbered over all nodes in the order of assignment, parents before children, so the first of all turns waits
for no other waiting turn. Invalid turns are taken out and assigned anew, behind the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from schedulers.core.live import StageState


class Turn(msgspec.Struct, eq=False):
    """A task's place in a node's line."""

    number: int
    job: str
    stage: int
    task: int
    size: int
    """Number of the size of its demand."""
    node: str
    start: float
    """Expected start, ms."""
    end: float
    """Expected end, ms."""
    sake: int = 0
    """Number of the child's turn, for the copy of a parent; its own number if its task runs elsewhere already; 0: the
    turn of a task itself.
    """
    after: tuple[tuple[int, int], ...] = ()
    """Stages and tasks of the parents with copies on the node to wait for."""


class Lines:
    """All turns at nodes. The memory of an assigner; `dump` and `load` cover all of it."""

    def __init__(self) -> None:
        self.next = 1
        """The next turn's number."""
        self.at: dict[str, dict[int, Turn]] = {}
        """Turns of each node, by number, the first in front; no empty lines."""
        self.sizes: dict[str, Counter[int]] = {}
        """By node how many of each size wait there."""
        self.of: dict[str, dict[int, Turn]] = {}
        """By job likewise."""
        self.tasks: dict[tuple[str, int], dict[int, Turn]] = {}
        """By job and stage the turns of its waiting tasks, copies left out; no empty ones."""

        self.copies: dict[int, Turn] = {}
        """The turns of copies, by number."""

    def add(self, turn: Turn) -> None:
        """Append a turn, with the next number or from a dump, to its node's line."""
        self.next = max(self.next, turn.number + 1)
        self.at.setdefault(turn.node, {})[turn.number] = turn
        self.sizes.setdefault(turn.node, Counter())[turn.size] += 1
        self.of.setdefault(turn.job, {})[turn.number] = turn
        if turn.sake:
            self.copies[turn.number] = turn
        else:
            self.tasks.setdefault((turn.job, turn.stage), {})[turn.task] = turn

    def take(self, turn: Turn) -> None:
        """Take a turn out, come or no longer wanted. Copies for the turn's sake go too."""
        _cut(self.at, turn.node, turn.number)
        self.sizes[turn.node] -= Counter([turn.size])
        _cut(self.of, turn.job, turn.number)
        if turn.sake:
            del self.copies[turn.number]
        else:
            _cut(self.tasks, (turn.job, turn.stage), turn.task)
        if turn.after:
            for other in [t for t in self.at.get(turn.node, {}).values() if t.sake == turn.number]:
                self.take(other)

    def make_copy(self, turn: Turn) -> None:
        """The turn's task has started elsewhere."""
        turn.sake = turn.number
        self.copies[turn.number] = turn
        _cut(self.tasks, (turn.job, turn.stage), turn.task)

    def take_all(self, turns: Iterable[Turn]) -> None:
        """Take the turns out."""
        for turn in list(turns):
            if turn.number in self.of.get(turn.job, ()):  # it has not gone with another
                self.take(turn)

    def in_turn(self) -> list[Turn]:
        """All turns by number."""
        return sorted((turn for line in self.at.values() for turn in line.values()), key=lambda turn: turn.number)

    def before(self, turn: Turn) -> int:
        """Number of turns before the given turn in its line."""
        return sum(number < turn.number for number in self.at[turn.node])

    def dump(self) -> Any:
        """As plain data."""
        return {"turns": msgspec.to_builtins(self.in_turn()), "next": self.next}

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        for turn in msgspec.convert(data["turns"], list[Turn]):
            self.add(turn)
        self.next = data["next"]


def _cut(of: dict[Any, dict[int, Turn]], key: Any, entry: int) -> None:
    entries = of[key]
    del entries[entry]
    if not entries:
        del of[key]


def waiting_tasks(stage: StageState) -> Iterator[int]:
    """Waiting tasks of the stage, in the order of starting: pilots, returned tasks, the rest."""
    yield from stage.pilots
    yield from sorted(stage.returned)
    if stage.waiting > len(stage.pilots) + len(stage.returned):
        yield from (task for task in range(stage.next, stage.tasks) if task not in stage.taken)


def without_turn(stage: StageState, turns: dict[int, Turn] | None) -> Sequence[int]:
    """Waiting tasks of the stage without a turn; every task with a turn waits."""
    if stage.waiting == len(turns or ()):
        return ()
    return [task for task in waiting_tasks(stage) if turns is None or task not in turns]
