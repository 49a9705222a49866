"""Rollouts on the workers of a cluster (`train --engine`): calls whose function plays an episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from rm_emulator.experiments.call import Call, CallLost, CallPlace, Needs
from rm_emulator.experiments.cell import paths_of, with_moved
from rm_emulator.learn.rollouts import Rollout, RolloutTask, RolloutWorker, WorkerDied

if TYPE_CHECKING:
    from rm_emulator.experiments.dask_calls import Calls
    from rm_emulator.experiments.dask_engine import DaskEngine


class RemoteRollouts:
    """Plays episodes on an engine's workers; like `RolloutPool`. name: of the configuration, for messages.

    Raises InvalidInput for workers of another program, and for a scheduler that does not answer.
    """

    def __init__(
        self,
        engine: DaskEngine,
        scenarios: Sequence[Mapping[str, Any]],
        kind: str,
        *,
        name: str,
        note: Callable[[str], None],
    ) -> None:
        self._engine, self._name, self._note = engine, name, note
        self._names = [each["metadata"]["name"] for each in scenarios]
        self._setting = msgspec.msgpack.encode((scenarios, kind))
        inputs = [path for each in scenarios for path in paths_of(each, each["spec"]["plugins"])]
        self._needs = Needs(inputs, packages=("greenlet",))
        self._opened = ExitStack()
        self._calls: Calls | None = None
        engine.greet(self._needs)

    def begin(self, tasks: Sequence[RolloutTask]) -> Callable[[], list[Rollout]]:
        """Start; the returned function waits for all episodes, in their order.

        The function raises WorkerDied, CallFailed and InvalidInput, see `dask_calls.Calls`.
        """
        if self._calls is None:
            self._calls = self._opened.enter_context(self._engine.open(self._needs, self._note))
        results = self._calls.begin([Call(self._title(task), _play, (self._setting, task)) for task in tasks])

        def wait_for_all() -> list[Rollout]:
            try:
                return results()
            except CallLost as error:
                raise WorkerDied(f"{error}; go on with --resume") from None

        return wait_for_all

    def play(self, tasks: Sequence[RolloutTask]) -> list[Rollout]:
        """All episodes, in the order of their tasks."""
        return self.begin(tasks)()

    def close(self) -> None:
        """End the connection; unfinished episodes are dropped."""
        self._opened.close()

    def _title(self, task: RolloutTask) -> str:
        return f"{self._name} rollout of {self._names[task.workload]} seed {task.seed}"


def _play(asked: tuple[bytes, RolloutTask], place: CallPlace) -> Rollout:
    setting, task = asked
    return _player(setting, tuple(place.moved.items())).play(task)


@lru_cache(maxsize=1)
def _player(setting: bytes, moved: tuple[tuple[str, str], ...]) -> RolloutWorker:
    """Of a process, for all its rollouts of a training run."""
    scenarios, kind = msgspec.msgpack.decode(setting)
    return RolloutWorker([with_moved(each, dict(moved)) for each in scenarios], kind)
