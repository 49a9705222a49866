"""Jobs, measured run times and draws as arrays, for the fast simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from rm_emulator.engine.config import Central, EngineConfig, kind
from rm_emulator.experiments.assembly import cluster_of, waves_of, workload_of
from rm_emulator.learn import fast_kernel as kernel
from rm_emulator.learn.fast_kernel import Desk, Durations, FastState, Floats, Ints, Jobs, Rule, World
from rm_emulator.scenario.schema import Scenario
from rm_emulator.workload.model import Waves, WorkloadJob
from rm_emulator.workload.waves import LEVELS, StageWaves, TaskDraws, Wave
from schedulers.core.vectors import times_in

_WAVES: Final[tuple[Wave, ...]] = ("fresh", "first", "rest")
#: A run time is no longer, ms: times are parts of numbers of 64 bits.
_LONGEST_MS: Final = 1 << 28
_NO_TRACE: Final = np.empty((0, 2), np.int64)


class Unsuitable(ValueError):
    """A workload or a cluster that the fast simulator does not play; the message says why."""


class FastRun(NamedTuple):
    """Everything about an episode but its policy and its draws."""

    jobs: Jobs
    durations: Durations
    executors: int
    moving_ms: int
    """Time to take up an executor, new or from another job."""

    @property
    def tasks(self) -> int:
        """Number of tasks of all jobs."""
        return int(self.jobs.jobs["tasks"].sum())

    def begin(self) -> FastState:
        """The state before the first arrival."""
        jobs, stages = self.jobs.jobs, self.jobs.stages
        state = FastState(
            np.zeros(8, np.int64),
            np.zeros(len(jobs), kernel.JOB_NOW),
            np.zeros(len(stages), kernel.STAGE_NOW),
            np.zeros(self.executors, kernel.PLACE),
            np.full(self.executors, kernel.NEVER, np.int64),
            np.zeros(self.executors, np.int64),
        )
        state.stages["unstarted"], state.stages["parents_left"] = stages["tasks"], stages["parents"]
        state.jobs["unstarted"] = state.jobs["left"] = jobs["tasks"]
        state.jobs["end_ms"] = -1
        state.clock[[kernel.NUMBER, kernel.PLACES, kernel.LEFT]] = 1, self.executors, len(jobs)
        return state

    def go_on(
        self,
        state: FastState,
        rule: Rule,
        draws: Floats,
        *,
        until_ms: int = kernel.NEVER,
        to_job_end: bool = False,
        trace: Ints = _NO_TRACE,
    ) -> None:
        """Change a state to a later one, see `fast_kernel.advance`. Raises Unsuitable if jobs can never finish."""
        world = World(self.jobs, self.durations, draws, trace, self.moving_ms)
        kernel.advance(world, rule, state, self._desk(), until_ms, to_job_end)
        if state.clock[kernel.LEFT] and until_ms == kernel.NEVER and not to_job_end:
            stuck = np.flatnonzero(state.jobs["end_ms"] < 0)
            raise Unsuitable(f"{len(stuck)} jobs can never finish; the first is number {stuck[0]} of the episode")

    def ends(self, rule: Rule, draws: Floats, trace: Ints = _NO_TRACE) -> Ints:
        """End of each job, ms, of a whole episode."""
        state = self.begin()
        self.go_on(state, rule, draws, trace=trace)
        return state.jobs["end_ms"]

    def new_trace(self) -> Ints:
        """A trace for the start and the end of each task."""
        return np.full((self.tasks, 2), -1, np.int64)

    def mean_jct_s(self, ends: Ints) -> float:
        """Mean job completion time of ended jobs, s."""
        return float((ends - self.jobs.jobs["submit_ms"]).mean() / 1000)

    def _desk(self) -> Desk:
        many, places = len(self.jobs.jobs), self.executors
        order, held, behind, leaving = (np.empty(many, np.int64) for _ in range(4))
        there, free, runs = (np.empty(places, np.int64) for _ in range(3))
        return Desk(order, np.empty(many), held, behind, leaving, there, free, runs, np.empty(4, np.int64))


class FastSetting(NamedTuple):
    """A scenario's seed for the fast simulator."""

    play: FastRun
    workload: tuple[WorkloadJob, ...]
    told: list[list[float]]
    """Mean run time by job and stage, ms, as the predictor `oracle` tells it."""
    draws: Floats
    """The engine's own."""


def setting_of(scenario: Scenario, seed: int) -> FastSetting:
    """A seed of a scenario. Raises Unsuitable for a workload or a cluster that the fast simulator does not play."""
    built = workload_of(scenario, seed)
    jobs, config, looked_up = built.workload.jobs, cluster_of(scenario, built), waves_of(built)
    executors = _executors(config, jobs)
    settings = config.executors
    if settings is None or looked_up is None:
        raise Unsuitable("a workload without measured waves, or a cluster without `executors`")

    def waves(times: Waves) -> StageWaves:
        return looked_up(times, settings)

    play = play_of(jobs, waves, executors, settings.moving_ms)
    told = [[float(round(waves(times).rough_ms)) for times in _measured(each)] for each in jobs]
    return FastSetting(play, jobs, told, draws_of(jobs, seed))


def _executors(config: EngineConfig, jobs: Sequence[WorkloadJob]) -> int:
    """Number of executors of the cluster. Raises Unsuitable for a cluster with anything else."""
    plain = EngineConfig(
        nodes=config.nodes, resources=config.resources, profile="events", executors=config.executors,
        architecture=config.architecture,
    )  # fmt: skip
    other = [name for name in EngineConfig.__struct_fields__ if getattr(config, name) != getattr(plain, name)]
    if other or any(node.speed != 1 for node in config.nodes) or kind(config.architecture or Central()) != "central":
        raise Unsuitable(
            f"a cluster beyond profile `events` with executors on equal nodes ({', '.join(other) or 'speed'})"
        )
    demand = jobs[0].job.stages[0].demand if jobs else ()
    return sum(times_in(demand, node.capacity) for node in config.nodes)


def _measured(job: WorkloadJob) -> list[Waves]:
    """Run times of a job's stages. Raises Unsuitable for others than measured waves."""
    if not all(isinstance(times, Waves) for times in job.runtimes):
        raise Unsuitable(f"job '{job.job.id}' has run times that were not measured in waves")
    return [times for times in job.runtimes if isinstance(times, Waves)]


def copied(state: FastState) -> FastState:
    """The same moment, to go on from independently."""
    return FastState(*(each.copy() for each in state))


def play_of(
    workload: Sequence[WorkloadJob], waves_of: Callable[[Waves], StageWaves], executors: int, moving_ms: int
) -> FastRun:
    """The episode of a workload's jobs.

    waves_of: measured run times of a stage. executors: of the cluster, one size for all tasks.
    Raises Unsuitable for a workload or cluster beyond the fast simulator.
    """
    _check(workload, executors)
    durations = durations_of([waves_of(times) for each in workload for times in _measured(each)])
    return FastRun(_jobs_of(workload), durations, executors, moving_ms)


def _jobs_of(workload: Sequence[WorkloadJob]) -> Jobs:
    firsts = list(accumulate((len(each.job.stages) for each in workload), initial=0))
    stages = [(first, stage) for first, each in zip(firsts, workload, strict=False) for stage in each.job.stages]
    children: list[list[int]] = [[] for _ in stages]
    for child, (first, stage) in enumerate(stages):
        for parent in stage.above:
            children[first + parent].append(child)
    made = np.zeros(len(workload), kernel.JOB), np.zeros(len(stages), kernel.STAGE)
    made[0]["submit_ms"] = [each.submit_ms for each in workload]
    made[0]["first"], made[0]["end"] = firsts[:-1], firsts[1:]
    made[0]["tasks"] = [each.job.tasks for each in workload]
    made[1]["tasks"] = [stage.tasks for _, stage in stages]
    made[1]["first_task"] = np.cumsum(made[1]["tasks"]) - made[1]["tasks"]
    made[1]["parents"] = [len(stage.parents) for _, stage in stages]
    made[1]["end_child"] = np.cumsum([len(below) for below in children])
    made[1]["first_child"] = made[1]["end_child"] - [len(below) for below in children]
    return Jobs(*made, np.array([child for below in children for child in below], np.int64))


def _check(workload: Sequence[WorkloadJob], executors: int) -> None:
    """Raise Unsuitable for jobs with anything that the fast simulator does not know."""
    most, numbers = kernel.PLACES_AT_MOST, kernel.NUMBERS_AT_MOST
    if not workload:
        raise Unsuitable("a workload without jobs")
    if not 1 <= executors <= most or executors * (len(workload) + 1) >= numbers:
        raise Unsuitable(
            f"{executors} executors for {len(workload)} jobs (1 to {most}, and executors x jobs below {numbers})"
        )
    if len({stage.demand for each in workload for stage in each.job.stages}) > 1:
        raise Unsuitable("tasks of several sizes (the fast simulator plays one size of executors)")
    for each in workload:
        plain = all(stage.above == stage.parents and not stage.gang for stage in each.job.stages)
        if each.job.kind != "batch" or each.am or each.running or not plain:
            raise Unsuitable(
                f"job '{each.job.id}' is a service, or has a gang, a master, running tasks, data on edges, "
                "or edges that are no barriers"
            )


def durations_of(stages: Sequence[StageWaves]) -> Durations:
    """Tables of measured stages, each list of run times once. Raises Unsuitable for run times of days."""
    lists = np.zeros((len(stages), len(_WAVES), len(LEVELS)), kernel.LIST)
    places: dict[int, tuple[int, int]] = {}
    values: list[int] = []
    for index, stage in enumerate(stages):
        for wave, name in enumerate(_WAVES):
            for level, measured in enumerate(stage.tables[name]):
                if id(measured) not in places:
                    places[id(measured)] = len(values), len(measured)
                    values.extend(measured)
                lists[index, wave, level] = places[id(measured)]
    if max(values) > _LONGEST_MS:
        raise Unsuitable(f"a run time of {max(values)} ms (at most {_LONGEST_MS})")
    return Durations(np.array(values, np.int64), lists, np.array(list(stages[0].choices), kernel.CHOICE))


def draws_of(workload: Iterable[WorkloadJob], seed: int) -> Floats:
    """The engine's own draws for a seed: each task has the run time that the engine gives it under the seed."""
    drawn = [
        TaskDraws(seed, each.job.id, index, stage.tasks)
        for each in workload
        for index, stage in enumerate(each.job.stages)
    ]
    both = [np.concatenate([getattr(each, name) for each in drawn]) for name in ("level", "pick")]
    return np.ascontiguousarray(np.transpose(both))


def random_draws(tasks: int, generator: np.random.Generator) -> Floats:
    """Draws of their own, a hundred times faster than the engine's."""
    return generator.random((tasks, 2))
