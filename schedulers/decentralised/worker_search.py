"""Memory of a scheduler for a stage while workers for its tasks are sought: nothing of the cluster is known."""

from __future__ import annotations

from collections.abc import Sequence

#: Workers allowed for a task; None: all workers of the stage.
Allowed = Sequence[str] | None


class LoadAnswers:
    """Probes with awaited answers; the tasks then go to the least loaded workers asked.

    tasks: number of tasks of the stage. asked: number of awaited answers for each task, or for -1: all tasks together.
    """

    __slots__ = ("_answers", "_awaited", "_tasks")

    def __init__(self, tasks: int, awaited: dict[int, int]) -> None:
        self._tasks, self._awaited = tasks, awaited
        self._answers: dict[int, list[tuple[int, str]]] = {}

    @property
    def over(self) -> bool:
        """Whether all answers are there."""
        return not self._awaited

    def answer(self, task: int, worker: str, load: int) -> list[tuple[int, str]]:
        """Note an answer; returns (task, worker) pairs, none before the last answer. Ties: in the order of answers."""
        answers = self._answers.setdefault(task, [])
        answers.append((load, worker))
        if len(answers) < self._awaited[task]:
            return []
        del self._awaited[task], self._answers[task]
        answers.sort(key=lambda each: each[0])
        tasks = range(self._tasks) if task < 0 else (task,)
        return [(each, worker) for each, (_, worker) in zip(tasks, answers, strict=False)]


class LateBinding:
    """Tasks handed out to workers on request (late binding).

    probed: workers, once per probe. allowed: for each task; (): no task is bound to workers. own_probes: the workers
    probed for each bound task.
    """

    __slots__ = ("_allowed", "_next", "_own_probes", "_tasks", "_unplaced", "probed")

    def __init__(
        self,
        tasks: int,
        probed: Sequence[str],
        allowed: Sequence[Allowed] = (),
        own_probes: Sequence[Sequence[str]] = (),
    ) -> None:
        self.probed: dict[str, int] = {}
        for worker in probed:
            self.probed[worker] = self.probed.get(worker, 0) + 1
        self._next, self._tasks, self._allowed, self._own_probes = 0, tasks, allowed, own_probes
        self._unplaced = dict.fromkeys(range(tasks)) if allowed else {}

    @property
    def over(self) -> bool:
        """Whether all tasks are handed out."""
        return not self._unplaced if self._allowed else self._next == self._tasks

    def hand_out(self, worker: str) -> int | None:
        """The task for an asking worker, None where no task is left for the worker."""
        there = self.probed.pop(worker)
        if there > 1:
            self.probed[worker] = there - 1
        if not self._allowed:
            task = self._next
            self._next += 1
            return task
        ranks = ((rank, task) for task in self._unplaced if (rank := self._rank(task, worker)) is not None)
        _, best = min(ranks, default=(0, None))
        if best is not None:
            del self._unplaced[best]
        return best

    def _rank(self, task: int, worker: str) -> int | None:
        """0: the worker was probed for the task, 1: allowed on the worker, 2: allowed anywhere; None: not allowed."""
        allowed = self._allowed[task]
        if allowed is None:
            return 2
        if worker in self._own_probes[task]:
            return 0
        return 1 if worker in allowed else None
