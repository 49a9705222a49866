"""Profiles: when a resource manager hears of facts, and when its decisions take effect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, Literal, Protocol, TypeVar

import msgspec

from rm_emulator.engine.calendar import Calendar, Enter
from rm_emulator.engine.config import EngineConfig, Faults
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.control import PATIENCE, Control
from rm_emulator.engine.recording import Recording
from rm_emulator.workload.model import Workload
from schedulers.core.decisions import Decision
from schedulers.core.events import Event
from schedulers.core.registry import NoParams, Registry

F = TypeVar("F")


class ToCome(Protocol):
    """The part of `Arrivals` that profiles and features use."""

    @property
    def are_left(self) -> bool:
        """Whether jobs are still to come."""
        ...

    @property
    def batch_left(self) -> bool:
        """Whether batch jobs are live or still to come."""
        ...

    def submit_anew(self, job: Master) -> None:
        """Submit a job anew, whose containers have ended and which the scheduler has forgotten."""


class Engine(Protocol):
    """The part of `Simulation` that profiles and features use. A profile with further needs names `Simulation`."""

    config: EngineConfig
    """The cluster."""
    workload: Workload
    """Its jobs."""
    seed: int
    """Seed of all draws by name."""
    control: Control
    """The decider."""
    record: Recording
    """Receiver of results."""
    calendar: Calendar
    """Callbacks in simulated time."""
    profile: Profile
    """Timing of facts and decisions."""
    jobs: dict[str, Master]
    """Live jobs, by id."""
    containers: dict[int, Container]
    """Live containers, by number."""
    actions: dict[type[Decision], Callable[[Any], None]]
    """The method that carries out a decision, by the decision's class."""
    launch: Callable[[Container], None]
    """Enters the start of a container granted now."""
    enter_end: Enter
    """Enters the end of a task on the calendar, as `Calendar.at`."""
    hear_end: Callable[[Container], bool]
    """Acts on the end of a task on its node. False: nothing on offer has changed."""
    begins_anew: tuple[Callable[[Master], None], ...]
    """Tell features that a job begins anew."""
    tell_completion: Callable[[Event], list[Decision]]
    """Tells a completion, late under disorder; returns the decisions made at once."""
    facts_to_come: int
    """Entries of `later` on the calendar."""
    until: int | None
    """Latest end of the run, ms; None: the run ends with the last job."""
    end_ms: int
    """End of the run, ms."""

    @property
    def is_busy(self) -> bool:
        """Whether anything runs, or is sure to be heard."""
        ...

    @property
    def arrivals(self) -> ToCome:
        """The jobs to come."""
        ...

    def feature(self, kind: type[F]) -> F | None:
        """The run's feature of this kind, or None."""
        ...

    def handle(self, event: Event) -> list[Decision]:
        """Let the decider hear a fact; its decisions are not carried out yet."""
        ...

    def tell(self, event: Event) -> list[Decision]:
        """Tell a fact and carry out the decisions."""
        ...

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        """Carry decisions out."""

    def later(self, at: int, rank: int, key: int, tell: Callable[[Any], None], about: Any) -> None:
        """Call `tell(about)`, which tells facts, at time `at`."""

    def tell_due(self, due: tuple[Callable[[Any], None], Any]) -> None:
        """Carry out an entry of `later`."""

    def carry_on(self) -> None:
        """Offer free room after the facts of one calendar entry."""

    def make_container(self, number: int, node: str, job: str) -> Container:
        """Make a container on its way to a job, without a task as yet."""
        ...

    def start_of(self, container: Container, at: int) -> int:
        """Start in ms of a grant that would start at time `at`."""
        ...

    def started(self, container: Container) -> None:
        """Handle the first instant of a granted container."""

    def set_run_time(self, container: Container) -> int:
        """Set the run time of a task in its container; returns the task's own, at node speed 1, ms."""
        ...

    def start(self, container: Container, now: int) -> None:
        """Handle the first instant of a task."""

    def over(self, container: Container) -> None:
        """Handle the last instant of a task on its node."""

    def count(self, container: Container) -> None:
        """Count a finished task in its job."""

    def tell_end(self, container: Container) -> None:
        """Tell the end of a container."""

    def tell_removal(self, container: Container) -> None:
        """Tell features that a container leaves its node before its end."""

    def record_end(self, container: Container, code: int = 0) -> None:
        """Record an attempt with its end now."""

    def finish(self, job: Master) -> None:
        """End a job."""


class Profile(ABC):
    """Timing of a real system. The docstring of a subclass names the system and the source.

    The hooks, in the order in which a task meets them: `begin` (the run), `arrived` (the job), `launch` (the grant),
    `runs` (the start), `ended` (the end), `stage_ended`, `finish_if_over`; after every fact comes `offer`.
    Through `engine` a hook enters callbacks on the calendar (`calendar`, `later`) and tells facts (`tell`, `tell_end`).

    A class `Params` inside the class has the settings of the profile, as in all registries; `params` holds the
    settings of this cluster.
    """

    offers: ClassVar[Literal["heartbeat", "cycle", "thought"]]
    """Nodes on offer: the node that beats, all nodes in each cycle, or all nodes to a job after thought."""
    asks: ClassVar[Literal["all", "roots", "asked"]] = "asked"
    """Stages that a job asks for on arrival, see `JobSubmitted`."""
    has_executors: ClassVar[bool] = False
    """Whether containers may outlive tasks."""
    has_masters: ClassVar[bool] = False
    """Whether application masters may have containers of their own."""
    has_leaders: ClassVar[bool] = False
    """Whether leaders decide in turn, while others keep the jobs and notice silent nodes; else the manager does all."""
    restart_ms: ClassVar[int] = 0
    """Least time of a restart of the manager, ms."""
    settle_ms: ClassVar[int] = 0
    """Time after a restart of the manager in which nothing is granted, ms."""
    prompt: ClassVar[bool] = False
    """Whether only start-up times and data come between a grant and the start of the task."""
    Params: ClassVar[type[msgspec.Struct]] = NoParams
    """Settings of the profile."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.params = engine, self.params_of(engine.config)
        self._idle_offers = 0

    @classmethod
    def params_of(cls, config: EngineConfig) -> Any:
        """The profile's `Params` on this cluster. Raises msgspec.ValidationError."""
        # Converted again rather than kept: class methods need the settings before there is an engine.
        return msgspec.convert(dict(config.settings), cls.Params)

    @classmethod
    def settled(cls, config: EngineConfig, workload: Workload) -> EngineConfig:
        """Complete the cluster by facts of the workload. Raises ValueError for a combination without meaning."""
        return config

    def begin(self) -> None:
        """Begin the run, after nodes and queues and before the first job."""

    def take_over(self, former: Profile) -> None:
        """Go on where the profile of a paused run stood, whose jobs and containers are the engine's by now.

        Begin anew what jobs were about to ask for, and reports of ends that were not heard.
        """

    def arrived(self, job: Master) -> None:
        """Act on the arrival of a job; the scheduler has heard of the job."""

    def launch(self, container: Container) -> int:
        """Start in ms of the task in a container granted now, without start-up times."""
        return self.engine.calendar.now

    @classmethod
    def usual_launch_ms(cls, config: EngineConfig) -> float:
        """Mean time in ms between grant and start of a task, without start-up times: a forecast.

        The launch of a kept executor serves many tasks, and does not count.
        """
        return 0.0

    def runs(self, runtime: int) -> int:
        """Run time in ms as seen from outside, for a task with this true run time and a start seen now."""
        return runtime

    def runs_from(self, started_ms: int, runtime: int) -> int:
        """As `runs`, for a task with a start seen at `started_ms`, now or before."""
        return self.runs(runtime)

    def ended(self, container: Container) -> bool:
        """Act on the end of a task on its node. False: nothing on offer has changed.

        The hearer of the end counts the task (`engine.count`), and tells the scheduler (`engine.tell_end`).
        """
        self.engine.count(container)
        self.engine.tell_end(container)
        return True

    def stage_ended(self, job: Master, stage: int) -> None:
        """Act on the last counted task of a stage."""

    def master_started(self, container: Container) -> None:
        """Act on the start of an application master's own container."""

    def finish_if_over(self, job: Master) -> None:
        """End the job if the end just heard was the last in the job."""
        if not job.state.left:
            self.engine.finish(job)

    @abstractmethod
    def offer(self) -> None:
        """Arrange the next offer of free room, after facts were heard.

        Called after every calendar entry with facts; here a policy may ask for an offer at a later time.
        """

    @classmethod
    def notices(cls, faults: Faults, at: int) -> tuple[int, int]:
        """When a node silent since `at` gets no further containers, and from then on until its containers are lost, ms.

        By default at once.
        """
        return at + (faults.noticed_after_ms or 0), faults.evicted_after_ms or 0

    def has_reached(self, container: Container, at: int) -> bool:
        """Whether the grant of a container had reached its node by time `at`, ms, so that it starts unaided."""
        return True

    def back(self, *, recovered: bool) -> None:
        """Hear nodes again after a restart of the manager, and offer none of them before `ready`.

        recovered: whether the manager takes up what has ended on nodes before.
        """

    def ready(self) -> None:
        """Offer nodes again."""

    def silenced(self, node: int) -> None:
        """Act on a node that is not heard from now on; what its tasks have reported so far counts."""

    def removed(self, container: Container) -> None:
        """Act on a container that was preempted or lost, when the scheduler hears."""

    def closed(self, node: int) -> None:
        """Act on a node that gets no further containers, or is lost; the scheduler has heard."""

    def heard_again(self, node: int) -> None:
        """Act on a node that is heard again, or open again."""

    def freed(self, node: int | None) -> None:
        """Make sure of an offer for room given back on this node (None: on any node), unheard by the node."""

    def is_patient(self, *, changed: bool) -> bool:
        """Whether further offers may still change anything, after an offer that did or did not."""
        if changed or self.engine.is_busy:
            self._idle_offers = 0
            return True
        self._idle_offers += 1
        triggers = self.engine.control.triggers
        # A policy that counts refused offers (delay scheduling) changes by further equal offers: hence patience.
        counts = (triggers.every_beat or triggers.every_offer) and self.engine.jobs
        return self._idle_offers <= (PATIENCE if counts else 1) * len(self.engine.config.nodes)


#: Profiles by name, see `Profile`.
profiles: Final[Registry[Profile]] = Registry("profile", "rm_emulator.engine.profiles", worlds=("emulator",))
#: Architectures by the kind of their block: deciders other than a single prompt scheduler, each in place of a profile.
architectures: Final[Registry[Profile]] = Registry(
    "architecture", "rm_emulator.engine.architectures", worlds=("emulator",)
)
