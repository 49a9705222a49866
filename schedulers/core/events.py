"""Facts in: past events, in the past tense, with the shell's time of receipt `at` in ms.

Everything able to change a decision is an event. `at` never decreases; times inside an event are data. Facts may repeat
or come late; the core ignores such facts. The log is the JSON of these structs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from schedulers.core.model import Job, Links, Node, PastJob, Queue
from schedulers.core.predictor import SamplePlan
from schedulers.core.rehearsal import StageProfile, Table
from schedulers.core.resources import Vector
from schedulers.core.waves import StageRunTimes

if TYPE_CHECKING:
    from schedulers.core.live import JobState


class Event(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True, gc=False):
    """A fact; `at` is the time at which the shell heard of the fact."""

    # First, so that every line of a log starts with kind and time. Equal to the shell's clock, never to a node's.
    at: int


class NodeAdded(Event, frozen=True, tag="NodeAdded"):
    """A node joined, or came back: empty, or with the containers of before where the node was drained meanwhile."""

    node: Node


class NodeChanged(Event, frozen=True, tag="NodeChanged"):
    """A node's capacity, speed or rack is different now; its containers stay."""

    node: Node


class NodeLost(Event, frozen=True, tag="NodeLost"):
    """A node was found dead: its containers are gone and their tasks wait again."""

    node: str


class NodeRemoved(Event, frozen=True, tag="NodeRemoved"):
    """A node takes no new containers and leaves with the end of its last container."""

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
    # YARN's application masters ask for stages one by one; a plain DAG asks for everything.
    asks: Literal["all", "roots", "asked"] = "all"
    """'all': stages become launchable with the end of their parents. 'asked': only after a JobChanged asks for them.
    'roots': root stages are asked for at once, later stages by JobChanged.
    """
    again: bool = False
    """Whether the job, withdrawn before, begins anew: no repetition of the fact."""


class JobChanged(Event, frozen=True, tag="JobChanged"):
    """An application master asked for the tasks of some stages (indexes)."""

    job: str
    asked: tuple[int, ...] = ()


class StageWithdrawn(Event, frozen=True, tag="StageWithdrawn"):
    """The request for a stage was withdrawn: no task of the stage starts before JobChanged asks again."""

    job: str
    stage: int


class CopyAsked(Event, frozen=True, tag="CopyAsked"):
    """An application master asks for one more container for a task under way (speculation); the first success counts.

    The container waits as the stage's other tasks do, until the task ends.
    """

    job: str
    stage: int
    task: int
    apart: tuple[str, ...] = ()
    """Nodes on which the container must not be, besides the node of the task."""


class NodesRefused(Event, frozen=True, tag="NodesRefused"):
    """An application master takes no further containers on these nodes; the list takes the place of an earlier one."""

    job: str
    nodes: tuple[str, ...] = ()


class JobCancelled(Event, frozen=True, tag="JobCancelled"):
    """A job was withdrawn: no task of the job starts any more; its containers end by their own events."""

    job: str
    why: str = ""
    """The reason in words, where the job was given up."""


class QueueChanged(Event, frozen=True, tag="QueueChanged"):
    """A queue was made or has other limits now."""

    queue: Queue


class QueueRemoved(Event, frozen=True, tag="QueueRemoved"):
    """A queue was taken away: jobs submitted before go on under its limits, later ones are not let in."""

    queue: str


class LinksSet(Event, frozen=True, tag="LinksSet"):
    """Rates of data between nodes; said before the first job, or never: then data takes no time."""

    links: Links


class ContainerStarted(Event, frozen=True, tag="ContainerStarted"):
    """The task of a container runs (for an executor: the executor has arrived)."""

    container: int


# Separate from ContainerEnded, because the executor lives on: its room is not given back.
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
    """0: the task succeeded after `runtime_ms`; anything else: the task waits again."""
    runtime_ms: int = 0


class ContainerExpired(Event, frozen=True, tag="ContainerExpired"):
    """A granted container was not started in time and is taken back."""

    container: int


class ContainerAdopted(Event, frozen=True, tag="ContainerAdopted"):
    """A task of ours is on a node by the decision of another scheduler (the leader before us, a user's own hand)."""

    container: int
    """The container's number from now on, not below the next free number."""
    node: str
    job: str
    stage: int
    task: int


class TaskFound(Event, frozen=True, tag="TaskFound"):
    """A task of ours succeeded unheard, before this scheduler began."""

    job: str
    stage: int
    task: int
    runtime_ms: int
    """Run time at node speed 1, ms; 0 for an unknown run time."""


class ContainerObserved(Event, frozen=True, tag="ContainerObserved"):
    """Foreign use of a node (pods of other schedulers, daemons); demand None: the use is over."""

    node: str
    name: str
    demand: Vector | None = None


class OthersSeen(Event, frozen=True, tag="OthersSeen"):
    """Resources held by all other schedulers on some nodes, as seen by a scheduler at a look; None: nothing."""

    held: dict[str, Vector | None]


class OfferAsked(Event, frozen=True, tag="OfferAsked"):
    """An outside scheduler asks for a node for a task of a job's stage, among some nodes (None: all)."""

    job: str
    stage: int
    nodes: tuple[str, ...] | None = None


class Thought(Event, frozen=True, tag="Thought"):
    """A scheduler with thinking time has thought about a job: all nodes in sight are on offer to the job alone."""

    job: str


# Separate from ContainerExpired, because a refused task was never begun and keeps its attempt.
class ClaimRefused(Event, frozen=True, tag="ClaimRefused"):
    """A granted container is not to be had, because others were faster: the task waits again, as the same attempt."""

    container: int


class Tick(Event, frozen=True, tag="Tick"):
    """Time passed; a cycle begins."""


class HistoryPrimed(Event, frozen=True, tag="HistoryPrimed"):
    """Jobs finished before this scheduler began, oldest first."""

    jobs: tuple[PastJob, ...]


class Estimated(Event, frozen=True, tag="Estimated", omit_defaults=True):
    """Mean run times of a job's tasks, told from outside (an oracle's answer, a user's claim)."""

    job: str
    runtimes_ms: tuple[int, ...]
    """Mean run time of a task of each stage, ms."""
    by_node: dict[str, tuple[int, ...]] = {}
    """The same for each node, where run times do not depend on the node's speed alone; 0 for stages without such times.
    """
    by_wave: tuple[StageRunTimes, ...] = ()
    """Distributions of the same run times by stage, where the policy plays executors."""


class Rehearsed(Event, frozen=True, tag="Rehearsed"):
    """A job was played forward on estimates, as wished by the policy (`Rehearses.new_scripts`)."""

    job: str
    profiles: tuple[StageProfile, ...] = msgspec.field(name="courses")
    """Job profile of each stage on the largest allocation."""
    table: Table
    """Remaining time of the job by progress and allocation."""


class RuleChange(msgspec.Struct, frozen=True, array_like=True):
    """A setting of a policy's rule for a job, as found by a search."""

    job: str
    stage: int
    """-1: the setting is of the whole job."""
    setting: Literal["factor", "price", "hold", "cap"]
    value: float


# A fact, because a search stopped by the clock ends elsewhere on another machine, and a replay must agree.
class SearchEnded(Event, frozen=True, tag="SearchEnded"):
    """The outcome of a search that a replay takes instead of searching."""

    solved: int
    """Number of parts of the plan found by search, all further parts being planned greedily; of rules tried."""
    why: Literal["stopped", "nothing", "large", "tried"]
    """The search was 'stopped' by the clock, found 'nothing' in its steps, met a problem too 'large' for it, or 'tried'
    as many rules as it may.
    """
    found: tuple[RuleChange, ...] = ()
    """Settings of the rule that are other than before the search."""


class LeaderStarted(Event, frozen=True, tag="LeaderStarted"):
    """The present process decides from now on."""

    name: str = ""


class Delivered(Event, frozen=True, tag="Delivered"):
    """A message between a scheduler and workers has arrived."""

    message: Any
    """The message of `Send`; plain data when read from a log."""


# The last two facts have no tag, because the scheduler tells them to its own state and no log holds them.
class PilotsNamed(Event, frozen=True):
    """The predictor chose a new job's pilots. Not in the log, as a replay's predictor chooses the same."""

    job: str
    plan: SamplePlan


class SizeEstimated(Event, frozen=True):
    """All stages of a job have estimates now. Not in the log: a replay's predictor says the same."""

    job: JobState
    """The job itself, not its id: the task behind the last pilot may have been the last of the job."""
    size_ms: float
    """Total work of the job, ms at node speed 1."""
    source: str
    """Source of the estimates."""


# A closed union, so that msgspec decodes a line by its tag and refuses every unknown kind.
AnyEvent = (
    NodeAdded
    | NodeChanged
    | NodeLost
    | NodeRemoved
    | Heartbeat
    | JobSubmitted
    | JobChanged
    | StageWithdrawn
    | CopyAsked
    | NodesRefused
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
