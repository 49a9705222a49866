"""Memory of a scheduler for a stage while workers for its tasks are sought: nothing of the cluster is known."""

from __future__ import annotations

from collections.abc import Sequence

#: Workers allowed for a task; None: all workers of the stage.
Allowed = Sequence[str] | None


class Loads:
    """Probes with awaited answers; the tasks then go to the least loaded workers asked.

    tasks: number of tasks of the stage. asked: number of awaited answers for each task, or for -1: all tasks together.
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
        """Note an answer; returns (task, worker) pairs, none before the last answer. Ties: in the order of answers."""
        answers = self._answers.setdefault(task, [])
        answers.append((load, worker))
        if len(answers) < self._asked[task]:
            return []
        del self._asked[task], self._answers[task]
        answers.sort(key=lambda each: each[0])
        tasks = range(self._tasks) if task < 0 else (task,)
        return [(each, worker) for each, (_, worker) in zip(tasks, answers, strict=False)]


class LateBinding:
    """Tasks handed out to workers on request (late binding).

    reserved: workers, once per reservation. allowed: for each task; (): no task is bound to workers. probed: the
    workers with reservations for a bound task.
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
        """The task for an asking worker, None where no task is left for the worker."""
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
        """0: reserved for at the worker, 1: allowed on the worker, 2: allowed anywhere; None: not allowed there."""
        allowed = self._allowed[task]
        if allowed is None:
            return 2
        if worker in self._probed[task]:
            return 0
        return 1 if worker in allowed else None
