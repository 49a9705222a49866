"""A Gymnasium environment on the emulator's own engine: the agent chooses a stage and a limit for the stage's job.

    import gymnasium
    import rm_emulator.learn.environment  # registers IDS

    env = gymnasium.make("rm_emulator/Spark-v0", num_executors=10, job_arrival_cap=20)

The ideas are Decima's (SIGCOMM 2019, section 5); names of `spark` are those of spark-sched-sim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.experiments.resolved import at_point
from rm_emulator.issues import InvalidInput, Issue, did_you_mean, show_value
from rm_emulator.learn.agents import AGENTS
from rm_emulator.learn.episode import REWARD_MS, Episode, EpisodeSetting, Objective, stepped
from rm_emulator.learn.gantt import Pixels, drawn
from rm_emulator.learn.padded import Observation, OrderPadding, Padded, Padding
from rm_emulator.scenario.load import load
from rm_emulator.scenario.schema import API_VERSION
from rm_emulator.scenario.workload import slots_of
from schedulers.core.errors import nearest
from schedulers.core.log import Log
from schedulers.core.policy import ClusterView
from schedulers.learned.classes import MOST as MOST_CLASSES

#: Upper bound of seeds drawn by `reset` without a seed.
_SEEDS: Final = 2**31
#: Default room of padded observations.
MOST_JOBS: Final = 50
MOST_STAGES: Final = 1000


class PlayedEpisode(NamedTuple):
    """An episode under a policy of the scenario: figures in s, and its event log."""

    mean_jct_s: float
    makespan_s: float
    log: bytes


class SchedulingEnv(gymnasium.Env[Observation, Any]):
    """A scenario's run, one step for each choice.

    agent: "decima" chooses the stage of executors and a limit; "lachesis" chooses the next stage.
    scenario: a file, a packaged example's name or a dict; `changes` to it as in `rm_emulator.run(set=...)`. label: the
    entry of its policies with the predictor and the placement for the agent; None: the first entry.
    objective: the reward is -1 for each 100 s of a live job ("mean_jct"), or for each 100 s ("makespan").
    mean_time_limit_s: an episode is truncated after a time drawn from an exponential distribution (a memoryless
    curriculum); None: no truncation, unless `reset(options={"time_limit_s": ...})` gives a time.
    most_jobs, most_stages: room of an observation. Where nodes have several capacities an action has a third part, the
    executor class. keeps_log: `episode.log` has the event log. The log's header names the scenario's policy, so play
    that policy where logs matter.
    Raises InvalidInput with every mistake of the scenario.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's own form)

    def __init__(
        self,
        scenario: Any,
        *,
        changes: Mapping[str, Any] = MappingProxyType({}),
        agent: str = "decima",
        label: str | None = None,
        objective: Objective = "mean_jct",
        mean_time_limit_s: float | None = None,
        most_jobs: int = MOST_JOBS,
        most_stages: int = MOST_STAGES,
        keeps_log: bool = False,
        render_mode: str | None = None,
    ) -> None:
        loaded = load(scenario, changes=changes)
        self._scenario = stepped(loaded)
        self._policies = at_point(loaded)["spec"]["policies"]
        self._policy = _policy(self._policies, label)
        for name, value in (("most_jobs", most_jobs), ("most_stages", most_stages)):
            if value < 1:
                raise _wrong(name, value, ["1 or more"])
        _check_time("mean_time_limit_s", mean_time_limit_s)
        if objective not in get_args(Objective):
            raise _wrong("objective", objective, get_args(Objective))
        if agent not in AGENTS:
            raise _wrong("agent", agent, AGENTS)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise _wrong("render_mode", render_mode, self.metadata["render_modes"])
        self._objective: Objective = objective
        self._mean_limit_s, self._keeps_log, self.render_mode = mean_time_limit_s, keeps_log, render_mode
        self._agent = AGENTS[agent]
        capacities = {tuple(sorted(group.capacity.items())) for group in self._scenario.spec.cluster.nodes}
        classes = len(capacities) if 1 < len(capacities) <= MOST_CLASSES else 0
        limits = max(1, slots_of(self._scenario))
        self._padding: Padded[Any, Any] = (
            OrderPadding(jobs=most_jobs, stages=most_stages)
            if agent == "lachesis"
            else Padding(jobs=most_jobs, stages=most_stages, limits=limits, classes=classes)
        )
        self._episode: Episode[Any, Any] | None = None
        self._places: list[Any] = []
        self._mask: NDArray[np.int8] = np.zeros(most_stages, dtype=np.int8)
        self.observation_space = self._padding.space  # type: ignore[assignment]
        self.action_space = self._padding.action_space

    # -- Gymnasium's side -------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """The first choice of an episode. seed: the scenario's, for the workload and the run times of its runs."""
        super().reset(seed=seed)
        self.close()
        chosen = int(self.np_random.integers(_SEEDS)) if seed is None else seed
        limit = (options or {}).get("time_limit_s")
        _check_time("time_limit_s", limit)
        if limit is None and self._mean_limit_s is not None:
            limit = self.np_random.exponential(self._mean_limit_s)
        until = None if limit is None else max(1, round(1000 * limit))
        setting, draws = EpisodeSetting(self._scenario, self._policy, chosen), self.render_mode is not None
        self._episode = Episode(setting, self._agent, until_ms=until, keeps_log=self._keeps_log, draws=draws)
        return self._observed()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Give executors to the stage in row `action[0]` until its job has `action[1]` + 1; or: row `action` is next.

        A limit too small for a new executor counts as the smallest useful limit (`least`), a limit above the cluster's
        executors as their number. A row forbidden by the mask counts as the next allowed row, and `info["allowed"]` is
        False. `action[2]`, where executor classes exist, is a class; a class without room for the stage counts as the
        smallest class with room.
        """
        episode, seen = self.episode, self.episode.asked
        before, row = episode.cost_ms(self._objective), int(np.ravel(action)[0])
        allowed = bool(self._mask[row])
        if seen is not None:
            place = self._places[row if allowed else _next(self._mask, row)]
            episode.act(self._padding.chosen(seen, place, action))
        observation, info = self._observed()
        spent, truncated = episode.cost_ms(self._objective) - before, episode.is_truncated
        over = episode.asked is None and not truncated
        return observation, -spent / REWARD_MS, over, truncated, {**info, "allowed": allowed}

    def render(self) -> Pixels | None:
        """The Gantt chart so far: nodes from top to bottom, time from left to right, a colour for each job."""
        if self.render_mode is None:
            return None
        return drawn(self.episode.bars, self.episode.nodes, self.episode.now_ms)

    def close(self) -> None:
        """End the episode at its present state."""
        if self._episode is not None:
            self._episode.close()

    # -- beside it --------------------------------------------------------------------------------

    @property
    def episode(self) -> Episode[Any, Any]:
        """The present run. Raises gymnasium's ResetNeeded before the first `reset`."""
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("reset comes before anything else")
        return self._episode

    @property
    def graph(self) -> Any:
        """The present choices (Graph or Choices), complete and unpadded. Raises ValueError after the episode's end."""
        if self.episode.asked is None:
            raise ValueError("the episode is over: nothing is to be chosen")
        return self.episode.asked

    @property
    def view(self) -> ClusterView:
        """The view of a policy at this time."""
        return self.episode.view

    def action_masks(self) -> NDArray[np.bool_]:
        """The mask as one array, the parts of the action behind each other (Stable-Baselines3's MaskablePPO)."""
        masks = self._masks()
        return np.concatenate(masks if isinstance(masks, tuple) else (masks,)).astype(np.bool_)

    def encode(self, action: Any) -> NDArray[np.int64] | np.int64:
        """An action on the graph as one of the environment. Raises ValueError for a job left out for lack of room."""
        place = self._padding.place(action)
        if place not in self._places:
            raise ValueError(f"stage {place} is not in the observation: give the environment more room (most_stages)")
        return self._padding.encoded(self.graph, self._places.index(place), action)

    def play(self, label: str, *, seed: int) -> PlayedEpisode:
        """The same episode under one of the scenario's own policies, to its end, for comparison with the agent."""
        chunks: list[bytes] = []
        log = Log(chunks.append)
        kept = MemoryRecording(attempts=False)
        simulation = EpisodeSetting(self._scenario, _policy(self._policies, label), seed).run(kept, log=log).simulation
        simulation.run()
        log.flush()
        jcts = [row.finish_ms - row.submit_ms for row in kept.jobs if row.finish_ms is not None]
        return PlayedEpisode(sum(jcts) / len(jcts) / 1000, simulation.end_ms / 1000, b"".join(chunks))

    def _masks(self) -> Any:
        """Masks in the form for `action_space.sample`."""
        return self._padding.masks(self._mask)

    def _observed(self) -> tuple[Observation, dict[str, Any]]:
        observation, self._places = self._padding.observe(self.episode.asked)
        self._mask = observation["stage_mask"]
        return observation, {"action_mask": self._masks(), **self.episode.figures}


def _next(mask: NDArray[np.int8], row: int) -> int:
    """The next row allowed by the mask; after the last row the first."""
    allowed = np.flatnonzero(mask)
    return int(allowed[np.searchsorted(allowed, row) % len(allowed)])


def _policy(policies: Sequence[Mapping[str, Any]], label: str | None) -> Mapping[str, Any]:
    """The entry with this label, for None the first entry. Raises InvalidInput for an unknown label."""
    if label is None:
        return policies[0]
    there = {policy["label"]: policy for policy in policies}
    if label not in there:
        raise _wrong("label", label, there)
    return there[label]


def _wrong(name: str, value: object, known: Iterable[str]) -> InvalidInput:
    known = list(known)
    near = nearest(value, known) if isinstance(value, str) else None
    return InvalidInput(
        [Issue(f"{name}={show_value(value)}", f"expected {' or '.join(known)}", hint=did_you_mean(near))]
    )


def _check_time(name: str, seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < inf:
        raise _wrong(name, seconds, ["a time above 0, in s"])


def spark(
    *,
    num_executors: int = 50,
    job_arrival_cap: int = 200,
    job_arrival_rate: float | None = 4e-5,
    moving_delay: float = 2000.0,
    warmup_delay: float = 1000.0,
    mean_time_limit: float | None = None,
    changes: Mapping[str, Any] = MappingProxyType({}),
    **others: Any,
) -> SchedulingEnv:
    """TPC-H jobs on Spark's executors, by the names of spark-sched-sim; all times in ms there, and here.

    job_arrival_rate: jobs per ms; None: all at once. mean_time_limit: see SchedulingEnv. changes: changes of the
    scenario, such as {"spec.workload.profiles": PATH}. others: arguments of SchedulingEnv.
    """
    arrivals = {"interarrival": f"{1 / job_arrival_rate:g}ms"} if job_arrival_rate else {"arrivals": "batch"}
    oracle = {"kind": "oracle"}
    document = {
        "apiVersion": API_VERSION,
        "kind": "Scenario",
        "metadata": {"name": "spark"},
        "spec": {
            "seeds": [0],
            "cluster": {
                "nodes": [{"count": num_executors, "capacity": {"cpu": 1, "memory": "2Gi"}}],
                "profile": "events",
                "executors": {"moving_delay": f"{moving_delay:g}ms", "warmup": f"{warmup_delay:g}ms"},
            },
            "workload": {"kind": "tpch", "jobs": job_arrival_cap, "history": 0, **arrivals},
            "policies": [
                {"label": "capped_sjf", "kind": "capped_sjf", "predictor": oracle},
                {"label": "fair", "kind": "weighted_fair", "alpha": 0.0, "predictor": oracle},
                {"kind": "fifo"},
            ],
        },
    }
    limit = None if mean_time_limit is None else mean_time_limit / 1000
    return SchedulingEnv(document, changes=changes, mean_time_limit_s=limit, **others)


def lachesis(
    *, jobs: int = 20, interarrival_s: float | None = None, reading: str = "stage", **others: Any
) -> SchedulingEnv:
    """LACHESIS's jobs on its 50 executors, in lines of DEFT: which stage is next? The reward follows the makespan.

    interarrival_s: a Poisson stream after the first job; None: all at once. reading: "stage", a stage is one task, or
    "tasks". others: arguments of SchedulingEnv; its `changes` go on top.
    """
    arrivals = {"arrivals": "poisson", "interarrival": f"{interarrival_s:g}s"} if interarrival_s else {}
    order = {"kind": "rank_up", "predictor": {"kind": "oracle"}, "placement": {"kind": "deft", "ahead": False}}
    changes = {
        "spec.workload": {"kind": "lachesis", "jobs": jobs, "reading": reading, **arrivals},
        "spec.policies": [order],
        "spec.baseline": None,
        **others.pop("changes", {}),
    }
    settings = {"objective": "makespan", **others}
    return SchedulingEnv("lachesis", agent="lachesis", changes=changes, **settings)


#: Environments registered by this module.
IDS: Final[Mapping[str, Callable[..., SchedulingEnv]]] = {
    "rm_emulator/Scheduling-v0": SchedulingEnv,
    "rm_emulator/Spark-v0": spark,
    "rm_emulator/Lachesis-v0": lachesis,
}
for _id, _made in IDS.items():
    gymnasium.register(_id, entry_point=_made)
