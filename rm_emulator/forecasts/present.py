"""The present of a live cluster, from the memory of its brain: what the brain knows, and a run that goes on from there.

All times are ms since the epoch, by the clock of the brain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from rm_emulator.engine.takeover import Past
from rm_emulator.experiments.changes import CellSetting
from rm_emulator.forecasts.moment import Paused
from rm_emulator.forecasts.remembered import remembered
from rm_emulator.forecasts.run_times import Listener
from rm_emulator.issues import InvalidInput
from rm_emulator.scenario.schema import API_VERSION
from rm_emulator.scenario.workload import Built
from schedulers.core.errors import SchedulerError
from schedulers.core.following import Astray, Follower
from schedulers.core.live import JobState
from schedulers.core.model import PastJob
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler
from schedulers.objects.memory import (
    HISTORY,
    SNAPSHOT,
    BrainSnapshot,
    Damaged,
    LogPlace,
    Piece,
    read_index,
    unpack,
    unpack_since,
)
from schedulers.objects.names import DEFAULT_QUEUE

#: Seed of the draws: equal memories have equal answers.
_SEED: Final = 0
#: A scenario needs a workload.
_WORKLOAD: Final = {"kind": "synthetic", "preset": "2sigma-like", "jobs": 1}


class Present(msgspec.Struct, frozen=True):
    """What a brain knows."""

    core: bytes
    """`Scheduler.snapshot`."""
    history: tuple[PastJob, ...]
    """The newest finished jobs, oldest first."""
    read_ms: int
    """When the memory was read."""
    place: LogPlace = LogPlace("", 0)
    """Where the core stands in the brain's event log."""
    tail: tuple[Piece, ...] = ()
    """What the log has told since."""


def present_of(config_maps: Iterable[Mapping[str, Any]], *, read_ms: int | None = None) -> Present:
    """The present by the ConfigMaps of a brain's memory. read_ms: now by default.

    A history that is not there is empty, and so is a tail that does not begin at the core. Raises InvalidInput.
    """
    maps = {str((item.get("metadata") or {}).get("name")): item for item in config_maps}
    if SNAPSHOT not in maps:
        raise InvalidInput(
            f"there is no ConfigMap '{SNAPSHOT}': no brain of rm-emulator is installed, or it has stored no memory yet"
        )
    try:
        index = read_index(maps[SNAPSHOT])
        saved = msgspec.msgpack.decode(unpack(index, maps), type=BrainSnapshot)
        history = _history(maps) or ()
        place = LogPlace(index.log, index.line)
        tail = () if index.since(place) is None else unpack_since(index, place, maps)
    except (Damaged, msgspec.DecodeError) as error:
        raise InvalidInput(f"the memory of the brain is not whole: {error}") from None
    return Present(saved.core, history, time.time_ns() // 1_000_000 if read_ms is None else read_ms, place, tail)


def _history(maps: Mapping[str, Mapping[str, Any]]) -> tuple[PastJob, ...] | None:
    """The stored history; None where there is none. Raises Damaged, msgspec.DecodeError."""
    if HISTORY not in maps:
        return None
    return msgspec.msgpack.decode(unpack(read_index(maps[HISTORY]), maps), type=tuple[PastJob, ...])


class FollowedPresent:
    """The present of a brain that goes on: restored once, and patched by what the brain has stored since.

    Raises InvalidInput, for a memory of another version, too.
    """

    def __init__(self, present: Present) -> None:
        self._log, self._history = present.place.log, present.history
        self._follower = _follower(present)
        try:
            self._hear(present.tail)
        except Astray:  # the core alone is as good as without a tail
            self._follower = _follower(present)

    @property
    def place(self) -> LogPlace:
        """Up to where the brain's event log has been heard."""
        return LogPlace(self._log, self._follower.line)

    def go_on(self, config_maps: Iterable[Mapping[str, Any]]) -> None:
        """Take in the index, the segments of the log since `place`, and the history if another is stored.

        Raises InvalidInput and Astray, and is then of no use any more.
        """
        maps = {str((item.get("metadata") or {}).get("name")): item for item in config_maps}
        try:
            tail = unpack_since(read_index(maps[SNAPSHOT]), self.place, maps)
            history = _history(maps)
        except (Damaged, LookupError, msgspec.DecodeError) as error:
            raise InvalidInput(f"the memory of the brain is not whole: {error}") from None
        self._hear(tail)
        self._history = self._history if history is None else history

    def _hear(self, tail: tuple[Piece, ...]) -> None:
        for piece in tail:
            self._follower.hear(piece.lines, piece.now)

    def paused(self, read_ms: int, *, profile: str = "kubernetes") -> Paused:
        """A run that goes on from here at the moment of reading; the present is not followed any more.

        Raises InvalidInput for a cluster without nodes.
        """
        return _paused(self._follower.leave(), self._history, read_ms, profile)


def _follower(present: Present) -> Follower:
    try:
        return Follower(present.core, present.place.line)
    except (SchedulerError, msgspec.MsgspecError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise InvalidInput(f"the memory of the brain is of another version of rm-emulator: {why}") from None


def paused_present(present: Present, *, profile: str = "kubernetes") -> Paused:
    """A run that goes on from the present, at the moment of reading. Raises InvalidInput for another version's memory.

    The restored scheduler decides on, with the memory of its policy and its predictor.
    """
    return FollowedPresent(present).paused(present.read_ms, profile=profile)


def _paused(scheduler: Scheduler, history: tuple[PastJob, ...], read_ms: int, profile: str) -> Paused:
    state = scheduler.state
    if not state.nodes:
        raise InvalidInput("the memory of the brain has no nodes")
    # By clocks that differ, the memory may come from the future; a task never runs for less than no time.
    now = max(read_ms, state.now)
    past = Past({}, {node.id: node.spec.speed for node in state.nodes.values()})
    # The history may be stored after the snapshot: a job that the snapshot holds live has not ended yet.
    past.jobs += [job for job in history if 0 <= job.finished <= state.now]
    simulation = remembered(scheduler, now, past, profile=profile, seed=_SEED)
    listener = Listener(state)
    listener.beliefs.prime(history)
    for job in sorted(state.jobs.values(), key=lambda each: each.seq):
        if job.spec.kind == "batch" and not job.cancelled:
            _learn(listener, job)
    built = Built(msgspec.structs.replace(simulation.workload, history=history))
    return Paused(
        simulation=simulation,
        listener=listener,
        scheduler=scheduler,
        past=past,
        setting=CellSetting(simulation.config, built, _SEED),
        policy=str(scheduler.config.policy["kind"]),
        scenario=_scenario(scheduler, profile),
        at_ms=now,
    )


def _learn(listener: Listener, job: JobState) -> None:
    """Learn what the state knows of a live job: number and mean run time of the finished tasks of each stage."""
    history = listener.beliefs.history
    priors = listener.priors[job.id] = listener.beliefs.of(
        job.spec, history.opened(job.spec, job.submitted), job.submitted
    )
    seen = history.running(job.id)
    assert seen is not None
    for stage, prior in zip(job.stages, priors, strict=True):
        if n := stage.finished:
            mean = stage.done_ms / n
            seen.counts[stage.index], seen.sums[stage.index] = n, stage.done_ms
            # The state has no squares: the tasks are taken to vary as tasks of such stages do.
            seen.squares[stage.index] = mean * mean * (n + (n - 1) * math.expm1(prior.noise))


def _scenario(scheduler: Scheduler, profile: str) -> dict[str, Any]:
    """The cluster as a scenario, as far as a reader of job files, or a check of another policy, asks."""
    state = scheduler.state
    room = [max(node.spec.capacity[r] for node in state.nodes.values()) for r in range(len(state.resources.names))]
    capacity = Resources(scheduler.config.resources).show(tuple(room))
    queues = [
        {"name": queue.name, **({"parent": queue.parent} if queue.parent else {})}
        for queue in state.queues.values()
        if queue.name not in state.tree.removed
    ]
    if queues and DEFAULT_QUEUE not in state.queues:
        queues.append({"name": DEFAULT_QUEUE})  # needs no object on a cluster
    cluster = {"nodes": [{"capacity": capacity}], "profile": profile}
    spec = {"cluster": cluster, "policies": [{"kind": "fifo"}], "queues": queues, "workload": _WORKLOAD}
    return {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": "cluster"}, "spec": spec}
