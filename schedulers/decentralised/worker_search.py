"""Memory of a scheduler for a stage while workers for its tasks are sought: nothing of the cluster is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: Workers allowed for a task; None: all workers of the stage.
Allowed = Sequence[str] | None


class Answered(NamedTuple):
    """The outcome of probes: pairs of a task and its worker, and tasks left without an answer."""

    placed: Sequence[tuple[int, str]] = ()
    left: Sequence[int] = ()


class LoadAnswers:
    """Probes with awaited answers; the tasks then go to the least loaded workers asked.

    A question is about a task, or -1: about several tasks together.
    """

    __slots__ = ("_answers", "_asked")

    def __init__(self) -> None:
        self._asked: dict[int, tuple[Sequence[int], Sequence[str]]] = {}  # tasks and workers, by question
        self._answers: dict[int, list[tuple[int, str]]] = {}

    def ask(self, question: int, tasks: Sequence[int], workers: Sequence[str]) -> None:
        """Note probes about these tasks, one for each worker named."""
        self._asked[question] = tasks, workers

    @property
    def over(self) -> bool:
        """Whether all answers are there."""
        return not self._asked

    def answer(self, question: int, worker: str, load: int) -> Answered:
        """Note an answer; nothing is placed before the last answer. Ties: in the order of answers."""
        answers = self._answers.setdefault(question, [])
        answers.append((load, worker))
        return self._settle(question) if len(answers) == len(self._asked[question][1]) else Answered()

    def lose(self, worker: str) -> Answered:
        """Await no more answers of a worker, and heed none."""
        placed: list[tuple[int, str]] = []
        left: list[int] = []
        for question, (tasks, workers) in list(self._asked.items()):
            if worker not in workers:
                continue
            self._asked[question] = tasks, [each for each in workers if each != worker]
            answers = self._answers[question] = [each for each in self._answers.get(question, ()) if each[1] != worker]
            if len(answers) == len(self._asked[question][1]):
                found = self._settle(question)
                placed += found.placed
                left += found.left
        return Answered(placed, left)

    def _settle(self, question: int) -> Answered:
        tasks, _ = self._asked.pop(question)
        answers = sorted(self._answers.pop(question), key=lambda each: each[0])
        placed = [(task, worker) for task, (_, worker) in zip(tasks, answers, strict=False)]
        return Answered(placed, tasks[len(placed) :])


class LateBinding:
    """Tasks handed out to workers on request (late binding).

    probed: reservations without a request so far, by worker.
    """

    __slots__ = ("_bound", "_free", "probed")

    def __init__(self) -> None:
        self.probed: dict[str, int] = {}
        self._free: deque[int] = deque()  # tasks for any worker
        self._bound: dict[int, tuple[Sequence[str], Sequence[str]]] = {}  # by task: allowed and probed workers

    def add_free(self, tasks: Iterable[int]) -> None:
        """Seek any workers for these tasks."""
        self._free.extend(tasks)

    def add_bound(self, task: int, allowed: Sequence[str], probed: Sequence[str]) -> None:
        """Seek a worker for a task among the allowed workers, some of which are probed for the task."""
        self._bound[task] = allowed, probed

    def reserve(self, workers: Iterable[str]) -> None:
        """Note reservations at these workers, once per reservation."""
        for worker in workers:
            self.probed[worker] = self.probed.get(worker, 0) + 1

    @property
    def over(self) -> bool:
        """Whether all tasks are handed out."""
        return not (self._free or self._bound)

    def hand_out(self, worker: str) -> int | None:
        """The task for an asking worker, None where no task is left for the worker.

        First a task probed there, then a task allowed there, at last a task for any worker.
        """
        # None: a reservation of an earlier search for the stage, before a task failed or was lost.
        there = self.probed.pop(worker, None)
        if there is not None and there > 1:
            self.probed[worker] = there - 1
        if self._bound:
            ranks = ((worker not in own, task) for task, (allowed, own) in self._bound.items() if worker in allowed)
            _, best = min(ranks, default=(False, None))
            if best is not None:
                del self._bound[best]
                return best
        return self._free.popleft() if self._free else None

    def lose(self, worker: str) -> tuple[list[int], int]:
        """Forget a worker; returns tasks bound to it and others, and lost reservations that other tasks may need."""
        bound = [task for task, (allowed, _) in self._bound.items() if worker in allowed]
        for task in bound:
            del self._bound[task]
        reservations = self.probed.pop(worker, 0)
        return bound, reservations if self._free else 0

    def take_free(self) -> list[int]:
        """Take out all tasks for any worker."""
        tasks = list(self._free)
        self._free.clear()
        return tasks
