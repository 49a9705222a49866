"""Facts in: what has happened, in the past tense, with the shell's time of receipt `at` in ms.

Whatever can change a decision is an event. `at` never decreases; times inside an event are data.
Facts may repeat or come late; the core ignores those. The log is the JSON of these structs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from schedulers.core.model import Job, Links, Node, PastJob, Queue
from schedulers.core.predictor import SamplePlan
from schedulers.core.rehearsal import Course, Table
from schedulers.core.resources import Vector

if TYPE_CHECKING:
    from schedulers.core.live import JobState


class Event(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True, gc=False):
    """Something that has happened; `at` is when the shell heard of it."""

    at: int


class NodeAdded(Event, frozen=True, tag="NodeAdded"):
    """A node joined (or came back) and is empty."""

    node: Node


class NodeChanged(Event, frozen=True, tag="NodeChanged"):
    """A node's capacity, speed or rack is different now; its containers stay."""

    node: Node


class NodeLost(Event, frozen=True, tag="NodeLost"):
    """A node was found dead: its containers are gone and their tasks wait again."""

    node: str


class NodeRemoved(Event, frozen=True, tag="NodeRemoved"):
    """A node takes no new containers and leaves when the last one has ended."""

    node: str


class Heartbeat(Event, frozen=True, tag="Heartbeat"):
    """A node reported in: in heartbeat mode its free room is on offer now."""

    node: str


class JobSubmitted(Event, frozen=True, tag="JobSubmitted"):
    """A job arrived.

    asks: 'all' stages become launchable with their parents' end; or only when 'asked' for by JobChanged;
    or 'roots' are asked for at once and the others later.
    """

    job: Job
    asks: Literal["all", "roots", "asked"] = "all"


class JobChanged(Event, frozen=True, tag="JobChanged"):
    """An application master asked for the tasks of these stages (indexes)."""

    job: str
    asked: tuple[int, ...] = ()


class StageWithdrawn(Event, frozen=True, tag="StageWithdrawn"):
    """What was asked for of a stage is not asked for any more: none of it starts before JobChanged asks again."""

    job: str
    stage: int


class JobCancelled(Event, frozen=True, tag="JobCancelled"):
    """A job was withdrawn: nothing of it starts any more; its containers end by their own events.

    why: in words, where it was given up.
    """

    job: str
    why: str = ""


class QueueChanged(Event, frozen=True, tag="QueueChanged"):
    """A queue was made or has other limits now."""

    queue: Queue


class QueueRemoved(Event, frozen=True, tag="QueueRemoved"):
    """A queue was taken away: jobs submitted before go on under its limits, later ones are not let in."""

    queue: str


class LinksSet(Event, frozen=True, tag="LinksSet"):
    """How fast data goes between nodes; said before the first job, or never: then it takes no time."""

    links: Links


class ContainerStarted(Event, frozen=True, tag="ContainerStarted"):
    """The task of a container runs (an executor: it has arrived)."""

    container: int


class TaskEnded(Event, frozen=True, tag="TaskEnded"):
    """A task of an executor succeeded after `runtime_ms`; the executor stays with its job."""

    container: int
    job: str
    stage: int
    task: int
    attempt: int
    runtime_ms: int


class ContainerEnded(Event, frozen=True, tag="ContainerEnded"):
    """A container is gone. code 0: its task succeeded after `runtime_ms`; otherwise the task waits again."""

    container: int
    code: int = 0
    runtime_ms: int = 0


class ContainerExpired(Event, frozen=True, tag="ContainerExpired"):
    """A granted container was not started in time and is taken back."""

    container: int


class ContainerAdopted(Event, frozen=True, tag="ContainerAdopted"):
    """A task of ours is on a node by the decision of another scheduler (the leader before us, a user's own hand).

    container: the number it has from now on, not below the next free one.
    """

    container: int
    node: str
    job: str
    stage: int
    task: int


class TaskFound(Event, frozen=True, tag="TaskFound"):
    """A task of ours has succeeded unheard, before this scheduler began; it took `runtime_ms`.

    That is at node speed 1, 0 where it is not known.
    """

    job: str
    stage: int
    task: int
    runtime_ms: int


class ContainerObserved(Event, frozen=True, tag="ContainerObserved"):
    """Use that is not ours (other schedulers' pods, daemons); demand None: it is gone."""

    node: str
    name: str
    demand: Vector | None = None


class OthersSeen(Event, frozen=True, tag="OthersSeen"):
    """What all others hold on these nodes now, as one of several schedulers sees it when it looks; None: nothing."""

    held: dict[str, Vector | None]


class OfferAsked(Event, frozen=True, tag="OfferAsked"):
    """An outside scheduler asks where one task of a job's stage should go, among these nodes (None: all)."""

    job: str
    stage: int
    nodes: tuple[str, ...] | None = None


class Thought(Event, frozen=True, tag="Thought"):
    """A scheduler that takes its time has thought about this job: all that it sees is on offer to it alone."""

    job: str


class ClaimRefused(Event, frozen=True, tag="ClaimRefused"):
    """What was granted is not to be had, because others were faster: the task waits again, as the same attempt."""

    container: int


class Tick(Event, frozen=True, tag="Tick"):
    """Time passed; a cycle begins."""


class HistoryPrimed(Event, frozen=True, tag="HistoryPrimed"):
    """Jobs that finished before this scheduler began, oldest first."""

    jobs: tuple[PastJob, ...]


class Estimated(Event, frozen=True, tag="Estimated", omit_defaults=True):
    """Somebody outside said what tasks will take: mean ms per stage (an oracle's answer, a user's claim).

    by_node: the same on each node, where times are no matter of its speed; 0 for a stage of which that is not so.
    """

    job: str
    runtimes_ms: tuple[int, ...]
    by_node: dict[str, tuple[int, ...]] = {}


class Rehearsed(Event, frozen=True, tag="Rehearsed"):
    """A job was played forward on estimates, as the policy wished (`Rehearses.new_scripts`).

    courses: what each stage goes through on the largest allocation. table: how long the job still takes.
    """

    job: str
    courses: tuple[Course, ...]
    table: Table


class SearchEnded(Event, frozen=True, tag="SearchEnded"):
    """What the policy plans on the next fact was not all searched for: a replay takes this instead of searching.

    solved: so many parts of the plan were, the others were made greedily. why: the search was 'stopped' by the clock,
    found 'nothing' in the steps that it has, or the problem was too 'large' for it.
    """

    solved: int
    why: Literal["stopped", "nothing", "large"]


class LeaderStarted(Event, frozen=True, tag="LeaderStarted"):
    """This process decides from now on."""

    name: str = ""


class Delivered(Event, frozen=True, tag="Delivered"):
    """A message between a scheduler and workers has arrived."""

    message: Any
    """As `Send` had it; plain data where it was read from a log."""


class PilotsNamed(Event, frozen=True):
    """The predictor chose a new job's pilots. Not in the log, as a replay's predictor chooses the same."""

    job: str
    plan: SamplePlan


class SizeEstimated(Event, frozen=True):
    """All stages of a job have estimates: its total work, and where that is from. Not in the log, as above.

    job: itself, not its id, for the task that ended its last pilot may have been its last.
    """

    job: JobState
    size_ms: float
    source: str


AnyEvent = (
    NodeAdded
    | NodeChanged
    | NodeLost
    | NodeRemoved
    | Heartbeat
    | JobSubmitted
    | JobChanged
    | StageWithdrawn
    | JobCancelled
    | QueueChanged
    | QueueRemoved
    | LinksSet
    | ContainerStarted
    | TaskEnded
    | ContainerEnded
    | ContainerExpired
    | ContainerAdopted
    | TaskFound
    | ContainerObserved
    | OthersSeen
    | OfferAsked
    | Thought
    | ClaimRefused
    | Tick
    | HistoryPrimed
    | Estimated
    | Rehearsed
    | SearchEnded
    | LeaderStarted
    | Delivered
)
