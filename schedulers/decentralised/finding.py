"""What a scheduler remembers of a stage while it finds workers for its tasks: this, and nothing of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

#: Whom a task may run on; None: any that the stage may use.
Allowed = Sequence[str] | None


class Loads:
    """Probes of which the answers are awaited; the tasks then go to the least loaded workers that were asked.

    tasks: how many the stage has. asked: how many answers are to come for each task by itself, or for -1, all of them.
    """

    __slots__ = ("_answers", "_asked", "_tasks")

    def __init__(self, tasks: int, asked: dict[int, int]) -> None:
        self._tasks, self._asked = tasks, asked
        self._answers: dict[int, list[tuple[int, str]]] = {}

    @property
    def over(self) -> bool:
        """Whether all answers are there."""
        return not self._asked

    def answer(self, task: int, worker: str, load: int) -> list[tuple[int, str]]:
        """One more answer; returns which tasks go where, nothing before the last answer. Ties: as they were asked."""
        answers = self._answers.setdefault(task, [])
        answers.append((load, worker))
        if len(answers) < self._asked[task]:
            return []
        del self._asked[task], self._answers[task]
        answers.sort(key=lambda each: each[0])
        tasks = range(self._tasks) if task < 0 else (task,)
        return [(each, worker) for each, (_, worker) in zip(tasks, answers, strict=False)]


class Reservations:
    """Tasks that are handed out to workers as these ask for them (late binding).

    reserved: where, once per reservation. allowed: for each task; (): no task is bound to workers. probed: of a task
    that is, the workers at which it was reserved for.
    """

    __slots__ = ("_allowed", "_left", "_next", "_probed", "_tasks", "reserved")

    def __init__(
        self, tasks: int, reserved: Sequence[str], allowed: Sequence[Allowed] = (), probed: Sequence[Sequence[str]] = ()
    ) -> None:
        self.reserved: dict[str, int] = {}
        for worker in reserved:
            self.reserved[worker] = self.reserved.get(worker, 0) + 1
        self._next, self._tasks, self._allowed, self._probed = 0, tasks, allowed, probed
        self._left = dict.fromkeys(range(tasks)) if allowed else {}

    @property
    def over(self) -> bool:
        """Whether all tasks are handed out."""
        return not self._left if self._allowed else self._next == self._tasks

    def hand_out(self, worker: str) -> int | None:
        """The task for a worker that asks, None where there is none for it."""
        there = self.reserved.pop(worker)
        if there > 1:
            self.reserved[worker] = there - 1
        if not self._allowed:
            task = self._next
            self._next += 1
            return task
        ranks = ((rank, task) for task in self._left if (rank := self._rank(task, worker)) is not None)
        _, best = min(ranks, default=(0, None))
        if best is not None:
            del self._left[best]
        return best

    def _rank(self, task: int, worker: str) -> int | None:
        """0: it was reserved for here, 1: it may run here, 2: it may run anywhere; None: not here."""
        allowed = self._allowed[task]
        if allowed is None:
            return 2
        if worker in self._probed[task]:
            return 0
        return 1 if worker in allowed else None
