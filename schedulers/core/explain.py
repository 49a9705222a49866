"""The full record of why a job waits, built on demand: all reasons with their numbers, in order of precedence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schedulers.core.abilities import TellsTurn, ability
from schedulers.core.reasons import Reason, sentence
from schedulers.core.refusals import NodeCode, NodeRefusal
from schedulers.core.resources import show_steps
from schedulers.core.vectors import fits

if TYPE_CHECKING:
    from schedulers.core.decisions import Reserve
    from schedulers.core.places import Places
    from schedulers.core.policy import ClusterView, Policy
    from schedulers.core.queues import Account
    from schedulers.core.state import ClusterState, JobState, NodeState, StageState


class WaitReason(msgspec.Struct, frozen=True):
    """A reason: code, numbers, an English sentence."""

    reason: Reason
    data: dict[str, Any]
    sentence: str


class StageView(msgspec.Struct, frozen=True):
    """A stage of an explained job."""

    stage: int
    name: str
    tasks: int
    waiting: int
    running: int
    finished: int
    excluded: dict[str, int]
    """Number of nodes by refusal; the sum is the number of all nodes."""


class Explanation(msgspec.Struct, frozen=True):
    """Standing of a live job."""

    job: str
    at: int
    submitted: int
    running: int
    waiting: int
    reasons: tuple[WaitReason, ...]
    """Reasons of the next task, in order of precedence, then the reasons of later stages; empty when no task waits."""
    stages: tuple[StageView, ...]
    size_ms: float | None = None
    size_source: str = ""
    about: dict[str, Any] = {}
    """The policy's own words on the job (its queue)."""


def explained(
    job: JobState, state: ClusterState, reasons: tuple[WaitReason, ...], about: dict[str, Any] | None = None
) -> Explanation:
    """The standing of a job, with reasons already found."""
    return Explanation(
        job.id,
        state.now,
        job.submitted,
        job.running,
        job.waiting,
        reasons,
        tuple(_stage_view(job, stage, state) for stage in job.stages),
        job.size_ms,
        job.size_source,
        about or {},
    )


def why_waiting(
    job: JobState, state: ClusterState, policy: Policy, view: ClusterView, offers: str
) -> tuple[WaitReason, ...]:
    """See `Scheduler.reasons`."""
    now, later = reasons_of_state(job, state, offers)
    # Only the policy knows the line of jobs, and asking costs a walk through the line.
    if Reason.BEHIND_OTHERS in now:
        now[Reason.BEHIND_OTHERS] = _turn(job, policy, view)
    # In place of the core's own words for the same code: the policy knows its numbers.
    said = policy.why(job, view) if job.waiting else None
    if said is not None:
        now[said[0]] = dict(said[1])
    return in_order(now, later)


def reasons_of_state(job: JobState, state: ClusterState, offers: str) -> tuple[Found, Found]:
    """Reasons that need no policy: of the stages able to start now, and of later stages."""
    now: Found = {}
    later: Found = {}
    if not job.admitted:
        # Outside its queue a job has no open stage, so nothing below could apply.
        now = dict((why_not_let_in(job, state),))
    for stage in job.stages if job.admitted and not job.cancelled else ():
        found = now if stage.index in job.open else later
        for reason, data in _stage_reasons(job, stage, state, offers).items():
            # The first stage with a code speaks for it: stages are in order of index, so explanations do not jump.
            found.setdefault(reason, data)
    return now, later


def in_order(now: Found, later: Found) -> tuple[WaitReason, ...]:
    """Reasons of the next task, followed by the reasons of later stages."""
    return (*_in_order(now), *_in_order({reason: data for reason, data in later.items() if reason not in now}))


Found = dict[Reason, dict[str, Any]]
#: The reason of a job with room to wait, by the kind of offers (`SchedulerConfig.offers`).
PASSED_BY: Final = {
    "heartbeat": Reason.WAITS_FOR_OFFER,
    "event": Reason.BEHIND_OTHERS,
    "cycle": Reason.BEHIND_OTHERS,
    "thought": Reason.WAITS_FOR_THOUGHT,
}


def _in_order(found: Found) -> list[WaitReason]:
    return [
        WaitReason(reason, data, sentence(reason, data))
        for reason, data in sorted(found.items(), key=lambda item: item[0].precedence)
    ]


def _stage_reasons(job: JobState, stage: StageState, state: ClusterState, offers: str) -> Found:
    name = job.spec.stages[stage.index].name
    if stage.parents_left or (not stage.waiting and stage.running + stage.finished < stage.tasks):
        return {Reason.WAITS_FOR_STAGE: _parent_data(job, stage)}
    if not stage.waiting:
        return {}
    if not stage.asked:
        return {Reason.WAITS_FOR_RETRY if offers == "thought" else Reason.WAITS_FOR_ASK: {"stage": name}}
    if not state.nodes:
        return {Reason.NO_NODES: {}}
    return _reservation(job, stage, state) or _room_reasons(job, stage, state, offers)


def _parent_data(job: JobState, stage: StageState) -> dict[str, Any]:
    """The parent that keeps tasks of the stage waiting, with its numbers, and the edge's own condition."""
    spec, stages = job.spec.stages, job.stages
    left = [
        (edge, n) for edge in spec[stage.index].edges if (n := spec[edge.parent].tasks - stages[edge.parent].finished)
    ]
    # Barriers first: behind a closed barrier no other edge lets a task start.
    edge, count = min(left, key=lambda each: each[0].kind != "barrier")
    tasks, until = spec[edge.parent].tasks, ""
    if edge.kind == "one_to_one":
        until = ", each lets in the task of its number"
    elif edge.kind == "share":
        until = f", tasks get containers with {edge.least(tasks)} done and all others begun"
    return {"parent": spec[edge.parent].name, "left": count, "tasks": tasks, "until": until}


def why_not_let_in(job: JobState, state: ClusterState) -> tuple[Reason, dict[str, Any]]:
    """Why a job waits outside its queue, with the numbers."""
    spec, tree = job.spec, state.tree
    gone = tree.closed(spec.queue, job.seq)
    if gone is not None:
        return Reason.QUEUE_GONE, {"queue": gone}
    account = tree.full(spec.queue, spec.user)
    ahead = sum(1 for other in state.admission.pending.get((spec.queue, spec.user), {}).values() if other.seq < job.seq)
    turn = f"this job comes after {_count(ahead, 'other')}" if ahead else "this job comes next"
    data: dict[str, Any] = {
        "ahead": ahead,
        "turn": turn,
        "queue": spec.queue,
        "user": spec.user,
        "who": _who(spec.user),
    }
    if account is None:
        return Reason.QUEUE_FULL_OF_JOBS, data
    data |= {
        "queue": account.queue,
        "running": account.jobs,
        "limit": account.most_jobs,
        "jobs": _count(account.jobs, "job"),
    }
    return (Reason.QUEUE_FULL_OF_JOBS if account.user is None else Reason.USER_FULL_OF_JOBS), data


def limit_reason(account: Account) -> Reason:
    """The code for a queue, or a user inside a queue, at its limit."""
    return Reason.QUEUE_AT_LIMIT if account.user is None else Reason.USER_AT_LIMIT


def _limit_data(account: Account, job: JobState, stage: StageState, state: ClusterState) -> dict[str, Any]:
    count, stage_name = stage.waiting if job.is_waiting_gang(stage) else 1, job.spec.stages[stage.index].name
    most, never = account.most_of(stage.demand), ""
    if most < count:
        whole = f": the {count} tasks of stage {stage_name} start together, and the limit allows {most}"
        gang = whole if count > 1 else ""
        never = f", even if nothing else were held{gang}"
    r = account.scarce(stage.demand, count)
    assert r is not None
    assert account.most is not None
    name, capacity = state.resources.names[r], state.capacity[r]
    return {
        "queue": account.queue,
        "user": account.user,
        "who": _who(account.user or ""),
        "resource": name,
        "held": show_steps(name, account.used[r]),
        "share": f"{account.used[r] / capacity:.1%}" if capacity else "nothing",
        "limit": show_steps(name, account.most[r]),
        "asked": show_steps(name, count * stage.demand[r]),
        "stage": stage_name,
        "never": never,
    }


def _who(user: str) -> str:
    """A user, as a sentence begins with; users without a name count as a single user."""
    return f"user {user}" if user else "the user without a name"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _room_reasons(job: JobState, stage: StageState, state: ClusterState, offers: str) -> Found:
    if not state.sizes.can_start(job, stage):
        return _never(job, stage, state)
    account = state.sizes.limiting_account(job, stage)
    if account is not None:
        return {limit_reason(account): _limit_data(account, job, stage, state)}
    # Room comes last: a limit or a missing label stays true however much room there is.
    excluded, name = _excluded(stage, state), job.spec.stages[stage.index].name
    room = sum(count for why, count in excluded.items() if why.code is NodeCode.HAS_ROOM)
    if room and job.is_waiting_gang(stage) and not state.sizes.has_room_for_all(stage):
        places = sum(node.fit_count(stage) for node in state.sizes.fitting(stage.size))
        return {Reason.NO_ROOM_FOR_GANG: {"stage": name, "tasks": stage.waiting, "room": places}}
    if room and offers == "heartbeat":
        return {Reason.WAITS_FOR_OFFER: {"nodes": room}}
    if room:
        ahead = [j.id for j in state.waiting.values() if j.seq < job.seq]
        return {PASSED_BY[offers]: {"ahead": len(ahead), "first": ahead[0] if ahead else "none"}}
    demand = show_quantities(state.resources.show(stage.demand))
    nearest = _nearest_free(stage, state)
    lacks: Counter[str] = Counter()
    for why, count in excluded.items():
        if why.code is NodeCode.LACKS:
            lacks[why.name] += count
    # Sorted first, so that equal counts give the same resource in every run.
    scarce = max(sorted(lacks), key=lambda name: lacks[name], default="room")
    return {Reason.NO_ROOM: {"demand": demand, "excluded": _counted(excluded) + nearest, "scarce": scarce}}


def _turn(job: JobState, policy: Policy, view: ClusterView) -> dict[str, Any]:
    """Jobs served before a job with room, or else the policy's own words."""
    tells = ability(policy, TellsTurn)
    line = None if tells is None else tells.line(view)
    before = list(takewhile(lambda name: name != job.id, line or ()))
    if before:
        jobs = "1 job is" if len(before) == 1 else f"{len(before)} jobs are"
        turn = f"{jobs} served before it, the first is {before[0]}"
    else:
        usual = "the policy keeps no line of jobs and chooses anew in each round" if line is None else "it is next"
        turn = (None if tells is None else tells.passes_by(job, view)) or usual
    return {"ahead": len(before), "first": before[0] if before else "", "turn": turn}


def _reservation(job: JobState, stage: StageState, state: ClusterState) -> Found | None:
    """Nodes reserved for the stage, or the holder of the room wanted by the stage; None: no reservation matters."""
    reservations = state.reservations
    if reservations is None:
        return None
    mine = reservations.by_stage.get((job.id, stage.index))
    if mine is not None:
        name, data = job.spec.stages[stage.index].name, {"nodes": show_nodes(mine), "starts": show_time(mine.starts)}
        return {Reason.HAS_RESERVATION: {"stage": name, **data}}
    there = [reservations.by_node.get(node.id) for node in state.sizes.fitting(stage.size)]
    # With room of its own the stage waits for its turn, and a reservation would be the wrong reason.
    if reservations.has_room(job, stage) or (other := next(filter(None, there), None)) is None:
        return None
    if job.is_waiting_gang(stage) and not state.sizes.has_room_for_all(stage):
        return None
    starts = f", expected to start at {show_time(other.starts)}"
    return {Reason.RESERVED: {"other": other.job, "nodes": show_nodes(other), "starts": starts}}


def show_nodes(reserve: Reserve) -> str:
    """The reserved nodes, the first few by name."""
    names = [name for name, _ in reserve.nodes]
    more = len(names) - _NAMED
    return " and ".join([*names[:_NAMED], *([f"{more} more"] if more > 0 else [])])


def show_time(ms: int) -> str:
    """A time for people: time of day for a time of the wall clock, else time since the run began."""
    seconds, wall = ms // 1000, is_wall(ms)
    hours = seconds // 3600 % 24 if wall else seconds // 3600
    return f"{hours}:{seconds // 60 % 60:02}:{seconds % 60:02}" + (" UTC" if wall else "")


def is_wall(ms: int) -> bool:
    """Whether a time belongs to the wall clock."""
    return ms > _WALL_MS


#: So many nodes of a reservation are named.
_NAMED: Final = 5
#: No run lasts ten years, and no cluster is scheduled in the first ten of the epoch.
_WALL_MS: Final = 10 * 365 * 86_400_000


def _never(job: JobState, stage: StageState, state: ClusterState) -> Found:
    """Why a stage could not start even if nothing else ran."""
    sizes, name, nodes = state.sizes, job.spec.stages[stage.index].name, len(state.nodes)
    matching = sizes.count_matching_nodes(stage.size)
    if not matching:
        excluded, wanted = _counted(_excluded(stage, state)), _wanted(sizes.places[stage.size])
        may = f"may use none of the {nodes} nodes" if nodes > 1 else "may not use the one node"
        data = {"stage": name, "nodes": nodes, "may": may, "excluded": excluded, "wanted": wanted}
        return {Reason.NO_NODE_MATCHES: data}
    rooms = [node.spec.room for node in state.nodes.values() if stage.size not in node.barred]
    where = f"the {f'{matching} nodes' if matching > 1 else 'one node'}{' that it may use' if matching < nodes else ''}"
    if sizes.fits_ever(stage.size):
        asked = _limiting(stage, rooms)
        demand = f"{stage.waiting} tasks of {_show_of(stage.demand, asked, state)} at once"
        holds = "hold" if matching > 1 else "holds"
        whole = f"the {sizes.most_at_once(stage.size)} that {where} {holds} when nothing else runs there"
    else:
        asked = [r for r, wanted in enumerate(stage.demand) if any(room[r] < wanted for room in rooms)]
        demand, nearest = _show_of(stage.demand, asked, state), _show_of(_nearest(stage, rooms), asked, state)
        several = f"any of {where} has in all; the nearest has {nearest}"
        whole = several if matching > 1 else f"{where} has in all: {nearest}"
    return {Reason.TOO_LARGE: {"stage": name, "demand": demand, "nodes": matching, "whole": whole}}


def _wanted(places: Places) -> str:
    """Requirements of a stage not met by any node."""
    if asks := places.show():
        return f"; it asks for nodes with {asks}"
    return "; its node affinity has no requirement, and so no node meets it" if places.terms else ""


def _limiting(stage: StageState, rooms: Sequence[Sequence[int]]) -> list[int]:
    """Resources each limiting the number of tasks as much as all together; all, without such a resource."""

    def most(resources: Sequence[int]) -> int:
        return sum(min(room[r] // stage.demand[r] for r in resources) for room in rooms)

    asked = [r for r, wanted in enumerate(stage.demand) if wanted]
    together = most(asked)
    return [r for r in asked if most([r]) == together] or asked


def _nearest_free(stage: StageState, state: ClusterState) -> str:
    """Free room on the node nearest to taking a task, among the nodes large enough for the task when idle."""
    names, places = state.resources.names, state.sizes.places[stage.size]
    free = [n.free for n in state.nodes.values() if why_not(n, stage, places, names).code is NodeCode.LACKS]
    asked = [r for r, wanted in enumerate(stage.demand) if wanted]
    return f"; the nearest has {_show_of(_nearest(stage, free), asked, state)} free" if free else ""


def _nearest(stage: StageState, rooms: Sequence[Sequence[int]]) -> Sequence[int]:
    """The vector, among those of the nodes, with the largest part of a task's demand.

    Vectors are compared by the resource with the smallest part, then by the sum of all parts.
    """
    asked = [r for r, wanted in enumerate(stage.demand) if wanted]

    def parts(room: Sequence[int]) -> tuple[float, float]:
        # Cut at 1: plenty of memory does not make up for a missing CPU.
        there = [min(1.0, room[r] / stage.demand[r]) for r in asked]
        return min(there), sum(there)

    return max(rooms, key=parts)


def _show_of(vector: Sequence[int], resources: Sequence[int], state: ClusterState) -> str:
    """Some components of a vector, zeros too."""
    names = state.resources.names
    return " and ".join(f"{show_steps(names[r], max(0, vector[r]))} {names[r]}" for r in resources)


def _stage_view(job: JobState, stage: StageState, state: ClusterState) -> StageView:
    name = job.spec.stages[stage.index].name
    excluded = _shown(_excluded(stage, state))
    return StageView(stage.index, name, stage.tasks, stage.waiting, stage.running, stage.finished, excluded)


def _excluded(stage: StageState, state: ClusterState) -> dict[NodeRefusal, int]:
    """Number of nodes by refusal, without its numbers."""
    counts: dict[NodeRefusal, int] = {}
    for node in state.nodes.values():
        why = why_not(node, stage, state.sizes.places[stage.size], state.resources.names)
        # Without the numbers, so that thousands of nodes fall into a few groups.
        kind = NodeRefusal(why.code, why.name, also=why.also)
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _shown(excluded: dict[NodeRefusal, int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for why, count in excluded.items():
        counts[why.sentence] = counts.get(why.sentence, 0) + count
    return counts


def _counted(excluded: dict[NodeRefusal, int]) -> str:
    return ", ".join(f"{count} {why}" for why, count in sorted(_shown(excluded).items()))


def why_not(node: NodeState, stage: StageState, places: Places, names: tuple[str, ...]) -> NodeRefusal:
    """The reason for a node not to take a task of the stage now."""
    if node.draining:
        return NodeRefusal(NodeCode.DRAINING)
    if stage.size in node.barred:
        spec = node.spec
        barred = places.bars(spec.id, spec.labels, spec.taints)
        assert barred is not None
        return barred
    for code, has in ((NodeCode.TOO_SMALL, node.spec.room), (NodeCode.LACKS, node.free)):
        if not fits(stage.demand, has):
            # TOO_SMALL before LACKS, because waiting helps against the second alone.
            first, *others = (r for r, wanted in enumerate(stage.demand) if wanted > has[r])
            return NodeRefusal(code, names[first], stage.demand[first], has[first], tuple(names[r] for r in others))
    return NodeRefusal(NodeCode.HAS_ROOM)


def show_quantities(quantities: dict[str, str]) -> str:
    """Amounts by resource, for people: `4 cpu and 8Gi memory`."""
    return " and ".join(f"{amount} {name}" for name, amount in quantities.items())
