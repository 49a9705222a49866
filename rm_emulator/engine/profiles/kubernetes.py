"""Profile `kubernetes`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from rm_emulator.engine.calendar import ASK
from rm_emulator.engine.config import EngineConfig, Faults
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.cycles import Cycles
from rm_emulator.engine.profile import Profile, profiles
from rm_emulator.engine.simulation import Simulation
from schedulers.core import keyed
from schedulers.core.events import JobChanged
from schedulers.core.fields import written

#: Times are written with a unit in a block of their own, and in ms among the settings of a profile.
_TIME = written("duration")


@profiles.register("kubernetes", source="measured on a devcluster of two cores (docs/kubernetes.md)")
class Kubernetes(Cycles):
    """This project's operators on Kubernetes: pods created, released, bound and watched; decisions in cycles.

    Source: measured on a devcluster of two cores (docs/kubernetes.md); the delays are settings. In a scenario the
    delays may also stand in a block of the cluster, `kubernetes`, with units.
    """

    class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Delays of profile kubernetes, measured on a devcluster of two cores ([Kubernetes](kubernetes.md))."""

        cycle_ms: Annotated[
            int,
            _TIME,
            Meta(ge=0, description="facts are gathered so long before the core decides", examples=[100]),
        ] = 50
        create_ms: Annotated[
            int, _TIME, Meta(ge=0, description="from a stage's turn to its first pod", examples=[30])
        ] = 30
        create_rate: Annotated[float, Meta(gt=0, description="pods created per second", examples=[50])] = 130.0
        release_rate: Annotated[float, Meta(gt=0, description="gates removed per second", examples=[100])] = 230.0
        start_ms: Annotated[
            int,
            _TIME,
            Meta(ge=0, description="from the removed gate to the running container (bind, start)", examples=[2000]),
        ] = 40
        seen_ms: Annotated[
            int,
            _TIME,
            Meta(ge=0, description="from a change of a pod to the watch that tells of it", examples=[5]),
        ] = 5
        whole_seconds: Annotated[
            bool,
            Meta(
                description="a pod ends at a whole second of the clock, because its start is stamped in whole seconds, "
                "as fake kubelets do",
                examples=[False],
            ),
        ] = True

    params: Params
    has_leaders = True
    restart_ms = 7_000
    """The lease of a leader, without which no other decides (operators/lease.py)."""

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine, gather_ms=self.params_of(engine.config).cycle_ms)
        self._pods = PodLifecycle(self.params, engine.seed)

    def take_over(self, former: Profile) -> None:
        """Let the controllers create the pods anew of stages whose pods were not all seen."""
        for job in self.engine.jobs.values():
            for stage in job.unasked_stages:
                self._create_pods(job, stage)

    def arrived(self, job: Master) -> None:
        """Let the controllers create the pods of the first stages."""
        for stage in job.root_stages:
            self._create_pods(job, stage)

    def stage_ended(self, job: Master, stage: int) -> None:
        """Let the controllers create the pods of the next stages."""
        for child in job.end_stage(stage):
            self._create_pods(job, child)

    def _create_pods(self, job: Master, stage: int) -> None:
        """Create the pods of a stage; the stage may start once all its pods have been seen."""
        at = self._pods.created(self.engine.calendar.now, job.source.job.stages[stage].tasks)
        self.engine.later(at, ASK, job.number, self._ask, (job, stage))

    def _ask(self, created: tuple[Master, int]) -> None:
        job, stage = created
        self.engine.tell(JobChanged(self.engine.calendar.now, job.name, (stage,)))

    def launch(self, container: Container) -> int:
        """Time at which the pod is released and seen running, ms."""
        return self._pods.released(self.engine.calendar.now)

    @classmethod
    def usual_launch_ms(cls, config: EngineConfig) -> float:
        """Start and watch, without the wait of many releases at once."""
        params: Kubernetes.Params = cls.params_of(config)
        return params.start_ms + params.seen_ms

    @classmethod
    def notices(cls, faults: Faults, at: int) -> tuple[int, int]:
        """After 40 s not ready (node-monitor-grace-period), after 300 s more evicted (tolerationSeconds)."""
        grace, toleration = faults.noticed_after_ms, faults.evicted_after_ms
        return at + (40_000 if grace is None else grace), 300_000 if toleration is None else toleration

    def runs_from(self, started_ms: int, runtime: int) -> int:
        """Run time as seen by the watch, ms."""
        return self._pods.runs(started_ms, runtime)


class PodLifecycle:
    """Times at which pods are there, released, running and seen to end.

    Creations and releases each pass through a queue with a fixed rate, as through the client of a process.
    """

    def __init__(self, settings: Kubernetes.Params, seed: int) -> None:
        self.settings = settings
        self._phase = int(keyed.uniform(seed, "whole-seconds") * 1000)
        self._creating = self._releasing = 0.0  # until when each queue is busy

    def created(self, now: int, pods: int) -> int:
        """Time at which the last of `pods` pods, wanted now, has been seen, ms."""
        # A single client creates all pods, so a large stage delays the next.
        begin = max(now + self.settings.create_ms, self._creating)
        self._creating = begin + 1000 * pods / self.settings.create_rate
        return round(self._creating) + self.settings.seen_ms

    def released(self, now: int) -> int:
        """Time at which a pod decided on now has been seen running, ms."""
        self._releasing = max(float(now), self._releasing) + 1000 / self.settings.release_rate
        return round(self._releasing) + self.settings.start_ms + self.settings.seen_ms

    def runs(self, now: int, runtime: int) -> int:
        """Run time, as seen by the watch, of a pod seen running now, ms."""
        if not self.settings.whole_seconds:
            return runtime
        # Whole seconds count from the start on the node, before the watch told of the start.
        since = (now - self.settings.seen_ms - self._phase) % 1000
        return max(1, 1000 * -(-runtime // 1000) - since)
