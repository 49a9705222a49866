"""Policies with plans of starts for wishes: each cycle all pending jobs anew; only starts of now are carried out.

TetriSched (EuroSys'16), sections 3 and 5. A machine of the paper is room for a task here. Plans are made on ticks, a
plan per cycle, so plans are the same in emulation and on Kubernetes; until the next plan the last plan is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from schedulers.core.abilities import (
    KeepsNodes,
    MindsDeadlines,
    MindsQueues,
    OneTaskEach,
    Searches,
    TellsTurn,
    WantsNodes,
)
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import Event, SearchEnded, Tick
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, Triggers
from schedulers.core.reasons import Reason
from schedulers.kit.paths import to_output
from schedulers.planning.rayon.calendar import Calendar, reserve_for
from schedulers.planning.tetrisched.start_plan import How, PlannedStart, Request, StartPlan, one_by_one, plan
from schedulers.planning.tetrisched.strl import leaves
from schedulers.planning.tetrisched.supply import Ints, Supply
from schedulers.planning.tetrisched.wishes import Way, WishExpression, ways, wish_expression

if TYPE_CHECKING:
    from schedulers.core.model import Queue, Wishes
    from schedulers.core.state import ContainerState, JobState, StageState

#: A window has so many slices at most.
MOST_SLICES: Final = 256
#: A stage with all tasks in a rack is planned for so many racks, by the most room.
_MOST_RACKS: Final = 3
#: A stage on time is worth so much more at once than at the end of the window.
_SOONER: Final = 0.1

#: A job and one of its stages.
Key = tuple[str, int]
Pending: TypeAlias = "tuple[JobState, StageState]"


class PlanAheadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of all policies that plan ahead."""

    cycle_s: Annotated[
        float,
        msgspec.Meta(
            ge=0.05,
            description="period between plans and length of a slice, in s; larger: coarser plans, less computation",
        ),
    ] = 4.0
    gap: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            lt=1,
            description="distance from the best plan at which the search ends, as a share of the plan's value; "
            "larger: faster, worse plans",
        ),
    ] = 0.1
    preferences: Annotated[
        Literal["soft", "hard", "none"],
        msgspec.Meta(
            description="ways considered: all ways of `wishes` (soft), only the most valuable way (hard), or none"
        ),
    ] = "soft"
    search: Annotated[
        Literal["together", "one_by_one"],
        msgspec.Meta(
            description="scope of a plan: all jobs (together), or job by job in order of submission (one_by_one)"
        ),
    ] = "together"


class StartNow(msgspec.Struct):
    """Tasks of a stage to start now: their number and their nodes."""

    nodes: frozenset[str]
    count: int
    spread: bool


class StartLater(msgspec.Struct, frozen=True):
    """A later start of a stage: its time, its places, their worth, and the worth of the places free now."""

    at: int
    later: str
    worth: float
    now: str


class _Want(NamedTuple):
    job: JobState
    stage: StageState
    asked: WishExpression


#: The ways of a stage, each with the name of its set of nodes and the time of a task there (ms).
_Ways = dict[Way, tuple[str, int]]


class _Nodes:
    """The nodes of a plan, alike ones together, and their room in each slice."""

    def __init__(self, view: ClusterView, slices: int, quantum: int) -> None:
        self._view = view
        self.nodes = [node for node in view.nodes.values() if not node.draining]
        self.kinds: dict[tuple[str, str, tuple[int, ...], float], list[int]] = {}
        for index, node in enumerate(self.nodes):
            spec = node.spec
            self.kinds.setdefault((spec.kind, spec.rack, tuple(node.barred), spec.speed), []).append(index)
        free = np.array([node.free for node in self.nodes], dtype=np.int64).reshape(-1, len(view.resources))
        self.room: Ints = np.repeat(np.maximum(free, 0)[:, None, :], slices, axis=1)
        self.bars = any(barred for _, _, barred, _ in self.kinds)
        index_of = {node.id: index for index, node in enumerate(self.nodes)}
        for container in view.containers.values():
            if (there := index_of.get(container.node)) is not None:
                first = -(-(_end(container, view, quantum) - view.now) // quantum)
                if first < slices:
                    self.room[there, first:] += np.array(view.demand(container.size), dtype=np.int64)

    def members(self, way: Way, size: int) -> list[int]:
        """Nodes of a way, for tasks of a size."""
        found: list[int] = []
        for (device, rack, barred, _), there in self.kinds.items():
            if way.device in ("", device) and way.rack in ("", rack) and size not in barred:
                found += there
        return found

    def racks(self) -> list[str]:
        """Racks with the most room of the first resource, as many as are planned for."""
        free: dict[str, int] = {}
        for (_, rack, _, _), there in self.kinds.items():
            if rack:
                free[rack] = free.get(rack, 0) + int(self.room[there, 0, 0].sum())
        return sorted(free, key=lambda rack: (-free[rack], rack))[:_MOST_RACKS]

    def count_tasks(self, members: Sequence[int], demand: Sequence[int], spread: bool) -> int:
        """How many tasks some nodes hold when nothing else runs there."""
        total = 0
        for index in members:
            room = self.nodes[index].spec.room
            count = min(there // wanted for there, wanted in zip(room, demand, strict=True) if wanted)
            total += min(1, count) if spread else count
        return total

    def task_ms(
        self, way: Way, members: Sequence[int], job: JobState, stage: StageState, *, told: bool
    ) -> float | None:
        """Time of a task on the slowest of some nodes (ms), None without an estimate. told: times are told by node."""
        view = self._view
        usual = view.task_ms(job.id, stage.index)
        if usual is None:
            return None
        if told:
            times = (view.task_ms_on(job.id, stage.index, self.nodes[index]) for index in members)
            return max(each for each in times if each is not None) * way.slowdown
        return usual / min(self.nodes[index].spec.speed for index in members) * way.slowdown


def _end(container: ContainerState, view: ClusterView, quantum: int) -> int:
    """Estimated end of a container; an overdue container is given a slice more, again and again."""
    begun = container.started if container.started >= 0 else container.granted
    told = None
    if container.job in view.jobs and container.stage >= 0:
        told = view.task_ms_on(container.job, container.stage, view.nodes[container.node])
    end = (
        2 * view.now - begun if told is None else round(begun + told)
    )  # without an estimate as long again as it has run
    return max(end, view.now + quantum)


class PlanAheadPolicy(Policy, OneTaskEach, KeepsNodes, WantsNodes, Searches, TellsTurn, MindsDeadlines, MindsQueues):
    """A plan per cycle. Subclasses say over how many slices, and whether times count at all (`ahead_ms`)."""

    Params: type[msgspec.Struct] = PlanAheadSettings
    params: PlanAheadSettings

    def __init__(self, params: PlanAheadSettings, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        if (why := self.unsound(params)) is not None:
            raise InvalidParameters(why)
        self.cycle_ms = round(1000 * params.cycle_s)
        self.triggers = Triggers(period_ms=self.cycle_ms)
        self.wanted_nodes: Collection[str] = frozenset()
        self._planned = -1  # the number of the cycle of the last plan
        self._starts: dict[Key, list[StartNow]] = {}
        self._later: dict[str, StartLater] = {}
        self._accepted: dict[str, None] = {}
        self._ended: SearchEnded | None = None  # a replay's knowledge of the next plan
        self._calendar: Calendar | None = None  # accepts deadlines in place of plans

    @classmethod
    def ahead_ms(cls, params: Any) -> int | None:
        """How far ahead starts are planned (ms); None: now, in space alone."""
        return None

    @classmethod
    def unsound(cls, params: Any) -> str | None:
        """The mistake in the settings together, or None."""
        ahead = cls.ahead_ms(params) or 0
        slices, least = ahead / (1000 * params.cycle_s), ahead / 1000 / MOST_SLICES
        if slices <= MOST_SLICES:
            return None
        return (
            f"plan_ahead_s has {slices:.0f} slices of cycle_s {params.cycle_s:g} "
            f"(at most {MOST_SLICES}: cycle_s from {least:g} on)"
        )

    @classmethod
    def mistakes(
        cls, params: Any, queues: Mapping[str, Queue], used: Collection[str]
    ) -> Iterable[tuple[tuple[str, ...], str]]:
        """See MindsQueues.mistakes."""
        if (why := cls.unsound(params)) is not None:
            yield ("plan_ahead_s",), why

    # -- what is heard ----------------------------------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """Plan on the first tick of a cycle with waiting jobs."""
        if isinstance(event, SearchEnded):
            self._ended = event
            return
        if view.has_changed:
            self._forget(view)
        if isinstance(event, Tick) and view.waiting and view.now // self.cycle_ms != self._planned:
            self._planned = view.now // self.cycle_ms
            self._plan(view)
            self._ended = None

    def _forget(self, view: ClusterView) -> None:
        """Forget jobs and stages without waiting tasks."""
        for name in view.changed():
            job = view.jobs.get(name)
            if job is None:
                self._accepted.pop(name, None)
            if job is None or not job.waiting:
                self._later.pop(name, None)
            for key in [key for key in self._starts if key[0] == name]:
                if job is None or key[1] not in job.open:
                    del self._starts[key]
                    self._update_wanted_nodes()

    def next_change(self, view: ClusterView) -> int | None:
        """The next cycle, while anybody waits."""
        return (view.now // self.cycle_ms + 1) * self.cycle_ms if view.waiting else None

    # -- the plan ---------------------------------------------------------------------------------

    def _plan(self, view: ClusterView) -> None:
        """Accepted deadlines first, other deadlines, then the rest with stages too late for their deadline.

        Apart, because a plan within a tenth of the best could leave out all stages worth a thousandth (section 4.4).
        """
        self._admit(view)
        stages = [
            (job, stage)
            for job in view.waiting.values()
            for stage in job.open_stages()
            if view.count_admitted(stage) >= (stage.waiting if job.is_waiting_gang(stage) else 1)
        ]
        made = _Plan(self, view, stages)
        known = self._ended
        late: list[Pending] = []
        for number in range(3):
            mine = [(job, stage) for job, stage in stages if self._class(job) == number]
            stopped = known is not None and number >= known.solved
            late += made.add_starts(mine if number < 2 else mine + late, on_time=number < 2, stopped=stopped)
            if known is None and made.how in ("stopped", "nothing", "large"):
                self.search_result = known = SearchEnded(view.now, number, made.how)
        self._follow(made, view)

    def _admit(self, view: ClusterView) -> None:
        """Jobs that are new to the calendar ask for a reservation."""
        if self._calendar is not None:
            for job in view.waiting.values():
                if reserve_for(self._calendar, job, view):
                    self._accepted[job.id] = None

    def expressions(self, view: ClusterView) -> list[tuple[JobState, StageState, WishExpression | None]]:
        """Expressions of a plan made now, by stage; None for wishes beyond the cluster."""
        stages = [(job, stage) for job in view.waiting.values() for stage in job.open_stages()]
        made = _Plan(self, view, stages)
        found = []
        for job, stage in stages:
            on_time = made.ask(job, stage, on_time=True) if self._class(job) < 2 else None
            found.append((job, stage, on_time or made.ask(job, stage, on_time=False)))
        return found

    def _class(self, job: JobState) -> int:
        """0: the job's deadline was accepted, 1: the job has a deadline, 2: no deadline."""
        return 0 if job.id in self._accepted else 1 if job.spec.deadline is not None else 2

    def _follow(self, made: _Plan, view: ClusterView) -> None:
        self._starts = made.starts
        if self._calendar is None:
            self._accepted |= dict.fromkeys(made.accepted)
        for name in {**self._later, **made.later}:
            if (name in self._later) != (name in made.later):
                view.recheck_reason(name)
        self._later = made.later
        self._update_wanted_nodes()

    def _update_wanted_nodes(self) -> None:
        there = [start.nodes for starts in self._starts.values() for start in starts if start.count]
        self.wanted_nodes = frozenset().union(*there)

    # -- what is done -----------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Suggest the starts of now by the plan."""
        for key, starts in list(self._starts.items()):
            job = view.waiting.get(key[0])
            if job is None or key[1] not in job.open:
                continue
            stage = job.stages[key[1]]
            for start in starts:
                if not start.count or not offer.fits(job, stage) or not _meets(start, offer):
                    continue
                outcome = yield Suggestion(
                    job.id, stage.index, count=start.count, among=start.nodes, spread=start.spread
                )
                if outcome.placed:
                    start.count -= min(start.count, outcome.placed)
                    self._update_wanted_nodes()

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """See Policy.why."""
        later = self._later.get(job.id)
        if later is None:
            return None
        wait = f"{max(0, later.at - view.now) / 1000:g}"
        data: dict[str, object] = {"wait": wait, "later": later.later, "worth": f"{later.worth:.3g}", "now": later.now}
        return Reason.PLANNED_LATER, data

    def passes_by(self, job: JobState, view: ClusterView) -> str | None:
        """See TellsTurn.passes_by."""
        if any(key[0] == job.id and start.count for key, starts in self._starts.items() for start in starts):
            return "it is planned to start now"
        return f"nothing of it starts by the last plan; the next one is made within {self.cycle_ms / 1000:g} s"

    def about(self, job: JobState) -> dict[str, Any]:
        """Whether a plan has ever had the job end by its deadline, or the calendar has accepted the job."""
        return {"accepted": job.id in self._accepted} if self._class(job) < 2 else {}

    # -- memory -----------------------------------------------------------------------------------

    def dump(self) -> Any:
        """The open rest of the last plan, and the jobs with accepted deadlines."""
        starts = [
            [job, stage, [[sorted(each.nodes), each.count, each.spread] for each in there]]
            for (job, stage), there in self._starts.items()
        ]
        later = msgspec.to_builtins(self._later)
        data = {"planned": self._planned, "starts": starts, "later": later, "accepted": list(self._accepted)}
        return data if self._calendar is None else {**data, "calendar": self._calendar.dump()}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self._planned = data["planned"]
        for job, stage, there in data["starts"]:
            self._starts[job, stage] = [StartNow(frozenset(nodes), count, spread) for nodes, count, spread in there]
        self._later = msgspec.convert(data["later"], dict[str, StartLater])
        self._accepted = dict.fromkeys(data["accepted"])
        if self._calendar is not None:
            self._calendar.load(data["calendar"])
        self._update_wanted_nodes()


def _meets(start: StartNow, offer: Offer) -> bool:
    """Whether a node of the start is on offer."""
    return offer.nodes is None or any(node.spec.id in start.nodes for node in offer.nodes)


def _starts(slices: int) -> list[int]:
    """Slices of the window for starts: 0, 1, 2, 3, 4, 6, 8, 12, 16, ...

    Far starts are planned roughly, for each cycle plans anew until a start is near.
    """
    return sorted({0, *(base << k for base in (1, 3) for k in range(slices.bit_length()) if base << k < slices)})


class _Plan:
    """A plan in the making."""

    def __init__(self, policy: PlanAheadPolicy, view: ClusterView, stages: Sequence[Pending]) -> None:
        ahead = policy.ahead_ms(policy.params)
        self._params, self._view, self._in_time = policy.params, view, ahead is not None
        self._quantum = quantum = policy.cycle_ms
        self._slices = max(1, -(-(ahead or 0) // quantum))
        self._times = [view.now + quantum * number for number in _starts(self._slices)] if self._in_time else None
        self._nodes = _Nodes(view, self._slices, quantum)
        self._racks = self._nodes.racks()
        self._left = self._nodes.room[:, 0, :].copy()  # room left now, used up by the plan
        self._sets: dict[str, list[int]] = {}
        self._single: set[str] = set()
        self._ways = {(job.id, stage.index): self._ways_of(job, stage) for job, stage in stages}
        self._supply = Supply(self._sets, self._nodes.room, quantum=quantum, now=view.now, single=self._single)
        self.how: How = "solved"
        self.starts: dict[Key, list[StartNow]] = {}
        self.later: dict[str, StartLater] = {}
        self.accepted: list[str] = []

    def add_starts(self, stages: Sequence[Pending], *, on_time: bool, stopped: bool) -> list[Pending]:
        """Plan stages on the room left, and keep their starts; returns the stages without a planned start."""
        wants = [_Want(job, stage, asked) for job, stage in stages if (asked := self.ask(job, stage, on_time=on_time))]
        requests = [Request(f"{job.id}/{stage.index}", asked.wants, stage.demand) for job, stage, asked in wants]
        if self._params.search == "one_by_one":
            made = one_by_one(requests, self._supply)
        else:
            made = plan(requests, self._supply, gap=self._params.gap, stopped=stopped)
        self.how = made.how
        return self._take_over(made, stages, wants, on_time)

    def _take_over(
        self,
        made: StartPlan,
        stages: Sequence[Pending],
        wants: Sequence[_Want],
        on_time: bool,
    ) -> list[Pending]:
        by_want: dict[int, list[PlannedStart]] = {}
        for planned in made.starts:
            by_want.setdefault(planned.request, []).append(planned)
        missing = {(job.id, stage.index): stage.waiting for job, stage in stages}
        for number, mine in by_want.items():
            job, stage, _ = want = wants[number]
            missing[job.id, stage.index] -= sum(sum(planned.held.values()) for planned in mine)
            if not self._start(want, mine):
                self._wait(want, mine)
        if on_time:
            late = {job for (job, _), count in missing.items() if count}
            self.accepted += dict.fromkeys(want.job.id for want in wants if want.job.id not in late)
        return [(job, stage) for job, stage in stages if missing[job.id, stage.index] == stage.waiting]

    # -- what is asked for ------------------------------------------------------------------------

    def ask(self, job: JobState, stage: StageState, *, on_time: bool) -> WishExpression | None:
        """The wants of a stage, to end by its deadline or as soon as possible; None: nothing is worth anything."""
        wishes = job.spec.wishes
        value = 1.0 if wishes is None else wishes.value
        there = self._ways[job.id, stage.index]
        if on_time:
            worth = self._on_time(job, stage, value)
        else:
            worth = self._best_effort(job, value, max((ms for _, ms in there.values()), default=0))
        gang, tasks = job.is_waiting_gang(stage), max(1, self._view.count_admitted(stage))
        return wish_expression(there, tasks, gang=gang, starts=self._times, worth=worth)

    def _ways_of(self, job: JobState, stage: StageState) -> _Ways:
        """Ways within the cluster; anywhere when no wished way is, unless preferences are hard."""
        wishes = job.spec.wishes
        found: _Ways = {}
        wished = ways(wishes, self._racks_of(job, stage) or self._racks, self._params.preferences)
        for way in self._affordable(job, wished, wishes):
            self._add_way(way, job, stage, found)
        if not found and self._params.preferences != "hard":
            self._add_way(Way(), job, stage, found)
        return found

    def _add_way(self, way: Way, job: JobState, stage: StageState, found: _Ways) -> None:
        """Note a way, if there could ever be room for the stage."""
        view, nodes = self._view, self._nodes
        members = nodes.members(way, stage.size)
        if nodes.count_tasks(members, stage.demand, way.spread) < (stage.waiting if job.is_waiting_gang(stage) else 1):
            return
        name = f"{way.nodes}#{stage.size}" if nodes.bars else way.nodes
        self._sets[name] = members
        self._single |= {name} if way.spread else set()
        ms = nodes.task_ms(way, members, job, stage, told=view.has_times_by_node(job.id, stage.index))
        found[way] = name, self._quantum if ms is None else max(1, round(ms))

    def _racks_of(self, job: JobState, stage: StageState) -> list[str]:
        """The rack with running tasks of the stage: the waiting tasks have to be there."""
        if not stage.running:
            return []
        view = self._view
        there = (c.node for c in view.containers.values() if c.job == job.id and c.stage == stage.index)
        return list(dict.fromkeys(rack for node in there if (rack := view.nodes[node].spec.rack)))[:1]

    def _affordable(self, job: JobState, there: list[Way], wishes: Wishes | None) -> list[Way]:
        """Ways with all tasks together within the budget; the shortest way if no way is."""
        if wishes is None or wishes.budget_ms is None:
            return there
        budget, view = wishes.budget_ms, self._view
        told = [(view.task_ms(job.id, stage.index), stage.tasks) for stage in job.stages]
        work = sum(ms * tasks for ms, tasks in told if ms is not None)
        within = [way for way in there if work * way.slowdown <= budget]
        return within or [min(there, key=lambda way: way.slowdown)]

    def _on_time(self, job: JobState, stage: StageState, value: float) -> Callable[[Way, int], float]:
        """The whole value until the deadline, less the time of later stages, and nothing after."""
        view = self._view
        assert job.spec.deadline is not None

        def length(index: int) -> float:
            return view.task_ms(job.id, index) or 0.0

        below = to_output(job.spec.stages, length)[stage.index] - length(stage.index)
        deadline, window = job.spec.deadline - below, self._quantum * self._slices

        def worth(way: Way, end: int) -> float:
            if self._in_time and end > deadline:
                return 0.0
            return value * way.worth * (1 - _SOONER * min(1.0, max(0, end - view.now) / (10 * window)))

        return worth

    def _best_effort(self, job: JobState, value: float, longest: int) -> Callable[[Way, int], float]:
        """Linearly less the later the end (best effort); more for jobs that have waited, so nobody waits for ever."""
        now, window = self._view.now, self._quantum * self._slices
        aged = value * (1 + (now - job.submitted) / max(window, 1000))
        reach = window + longest + self._quantum

        def worth(way: Way, end: int) -> float:
            return aged * way.worth * (1 - max(0, end - now) / reach)

        return worth

    # -- what comes of it -------------------------------------------------------------------------

    def _start(self, want: _Want, mine: Sequence[PlannedStart]) -> bool:
        """Give nodes to the tasks with a start now; returns whether there are any."""
        job, stage, asked = want
        wanted, starts = list(leaves(asked.wants)), []
        for planned in mine:
            leaf, way = wanted[planned.leaf], asked.ways[planned.leaf]
            if leaf.start in (None, self._view.now):
                nodes, count = self._nodes_for(stage, planned, way, gang=job.is_waiting_gang(stage))
                if count:
                    starts.append(StartNow(frozenset(nodes), count, way.spread))
        if job.is_waiting_gang(stage) and sum(start.count for start in starts) < stage.waiting:
            return False
        if starts:
            self.starts[job.id, stage.index] = starts
        return bool(starts)

    def _nodes_for(self, stage: StageState, start: PlannedStart, way: Way, *, gang: bool) -> tuple[list[str], int]:
        """Nodes with room now: in order of arrival, for a gang the most room first."""
        demand = np.array(stage.demand, dtype=np.int64)
        asked = demand > 0
        found: list[str] = []
        total = 0
        for place, count in start.held.items():
            members = self._supply.classes[place]
            rooms = np.min(self._left[members][:, asked] // demand[asked], axis=1)
            if way.spread:
                rooms = np.minimum(rooms, 1)
            order = np.argsort(-rooms, kind="stable") if gang else np.arange(len(members))
            left = count
            for at in order:
                here = min(left, int(rooms[at]))
                if here > 0:
                    self._left[members[at]] -= here * demand
                    found.append(self._nodes.nodes[members[at]].id)
                    left -= here
                if not left:
                    break
            total += count - left
        return found, total

    def _wait(self, want: _Want, mine: Sequence[PlannedStart]) -> None:
        """Note the stage's later start, compared with the places left to the stage now."""
        job, stage, asked = want
        there = self._supply.count(stage.demand)[:, 0]
        wanted = list(leaves(asked.wants))
        first = min(mine, key=lambda planned: (wanted[planned.leaf].start or 0, planned.leaf))
        leaf, count = wanted[first.leaf], sum(first.held.values())
        best = "now nothing is left that it would take"
        most = 0.0
        for way, other in zip(asked.ways, wanted, strict=True):
            if other.start in (None, self._view.now):
                free = min(other.k, sum(int(there[place]) for place in self._supply.sets[other.set]))
                free = 0 if job.is_waiting_gang(stage) and free < other.k else free
                if other.v * free / other.k > most:
                    most = other.v * free / other.k
                    best = f"{way.describe(free)} now {'is' if free == 1 else 'are'} worth {most:.3g}"
        at = leaf.start if leaf.start is not None else self._view.now
        said = asked.ways[first.leaf].describe(count)
        self.later.setdefault(job.id, StartLater(at, said, leaf.v * count / leaf.k, best))
