"""What a profile is: when a resource manager hears of things, and when it acts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, Literal, Protocol

import msgspec

from rm_emulator.engine.calendar import Calendar
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.control import PATIENCE, Control
from rm_emulator.engine.recording import Recording
from rm_emulator.workload.model import Workload
from schedulers.core.decisions import Decision
from schedulers.core.events import Event
from schedulers.core.registry import NoParams, Registry


class Engine(Protocol):
    """What profiles and features need of the simulation. Profiles that need more say so by its class, `Simulation`."""

    config: EngineConfig
    """The cluster."""
    workload: Workload
    """Its jobs."""
    seed: int
    """Of all draws by name."""
    control: Control
    """Who decides."""
    record: Recording
    """Where results go."""
    calendar: Calendar
    """What happens when."""
    profile: Profile
    """When things are heard and acted upon."""
    jobs: dict[str, Master]
    """The jobs that live, by id."""
    containers: dict[int, Container]
    """The containers that live, by number."""
    obeys: dict[type[Decision], Callable[[Any], None]]
    """Who carries out a decision."""
    launch: Callable[[Container], None]
    """Sees to it that what is granted now starts."""
    tell_completion: Callable[[Event], list[Decision]]
    """Tells a completion, late where there is disorder; what was decided at once."""
    until: int | None
    """When the run ends at the latest, in ms; None: with its last job."""
    end_ms: int
    """When it has ended."""

    @property
    def is_busy(self) -> bool:
        """See Simulation."""
        ...

    @property
    def arrivals_left(self) -> bool:
        """See Simulation."""
        ...

    def handle(self, event: Event) -> list[Decision]:
        """See Simulation."""
        ...

    def tell(self, event: Event) -> list[Decision]:
        """See Simulation."""
        ...

    def obey(self, decisions: Iterable[Decision]) -> None:
        """See Simulation."""

    def later(self, at: int, rank: int, key: int, tell: Callable[[Any], None], about: Any) -> None:
        """See Simulation."""

    def carry_on(self) -> None:
        """See Simulation."""

    def contain(self, number: int, node: str, job: str) -> Container:
        """See Simulation."""
        ...

    def start_of(self, container: Container, at: int) -> int:
        """See Simulation."""
        ...

    def started(self, container: Container) -> None:
        """See Simulation."""

    def start(self, container: Container, now: int) -> None:
        """See Simulation."""

    def over(self, container: Container) -> None:
        """See Simulation."""

    def count(self, container: Container) -> None:
        """See Simulation."""

    def tell_end(self, container: Container) -> None:
        """See Simulation."""

    def finish(self, job: Master) -> None:
        """See Simulation."""


class Profile(ABC):
    """One real system's timing. A subclass says in its docstring which system that is, and where that is written.

    The hooks, in the order in which a task meets them: `begin` (the run), `arrived` (its job), `launch` (its grant),
    `runs` (its start), `ended` (its end), `stage_ended`, `finish_if_over`; after whatever was heard comes `offer`.
    Through `engine` a hook enters things on the calendar (`calendar`, `later`) and tells facts (`tell`, `tell_end`).

    offers: what the scheduler is offered, the node that beats, all nodes in each cycle, or all to the job that it has
    thought about.
    asks: what a job asks for on its arrival, see `JobSubmitted`.
    has_executors: containers may outlive tasks. has_masters: application masters may have containers of their own.
    prompt: nothing comes between a grant and the task's start but start-up times and data.

    A class `Params` inside the class has the settings of the profile, as of whatever registers itself; params: those
    of this cluster.
    """

    offers: ClassVar[Literal["heartbeat", "cycle", "thought"]]
    asks: ClassVar[Literal["all", "roots", "asked"]] = "asked"
    has_executors: ClassVar[bool] = False
    has_masters: ClassVar[bool] = False
    prompt: ClassVar[bool] = False
    Params: ClassVar[type[msgspec.Struct]] = NoParams

    def __init__(self, engine: Engine) -> None:
        self.engine, self.params = engine, self.params_of(engine.config)
        self._idle_offers = 0

    @classmethod
    def params_of(cls, config: EngineConfig) -> Any:
        """The profile's `Params` on this cluster. Raises msgspec.ValidationError."""
        return msgspec.convert(dict(config.settings), cls.Params)

    @classmethod
    def settled(cls, config: EngineConfig, workload: Workload) -> EngineConfig:
        """The cluster with what follows from the workload. Raises ValueError for what does not go together."""
        return config

    def begin(self) -> None:
        """Nodes and queues have been told; the first job has not arrived."""

    def arrived(self, job: Master) -> None:
        """The scheduler has heard of a job: what else follows from its arrival?"""

    def launch(self, container: Container) -> int:
        """When the container that is granted now starts its task, in ms, before start-up times."""
        return self.engine.calendar.now

    @classmethod
    def usual_launch_ms(cls, config: EngineConfig) -> float:
        """How long a task holds what it was granted before it starts, on average, before start-up times: a forecast.

        Executors that are kept are launched once for many tasks: that does not count.
        """
        return 0.0

    def runs(self, runtime: int) -> int:
        """How long a task of this run time, whose start is seen now, is seen to run."""
        return runtime

    def ended(self, container: Container) -> bool:
        """A task has ended on its node: who hears of it, and when? False: nothing that could be offered has changed.

        Whoever hears of it counts it (`engine.count`), and tells the scheduler (`engine.tell_end`).
        """
        self.engine.count(container)
        self.engine.tell_end(container)
        return True

    def stage_ended(self, job: Master, stage: int) -> None:
        """The last task of a stage was counted: what follows?"""

    def master_started(self, container: Container) -> None:
        """An application master's own container runs."""

    def finish_if_over(self, job: Master) -> None:
        """The scheduler has heard of an end in this job: is that the end of the job?"""
        if not job.state.left:
            self.engine.finish(job)

    @abstractmethod
    def offer(self) -> None:
        """Something was heard: see to it that what is free will be offered, and when.

        Called after every calendar entry that told facts; a policy that wants an offer at some time is asked here.
        """

    def freed(self, node: int | None) -> None:
        """Room was given back on this node, or on any, unheard by the node: its next offer must not be missed."""

    def is_patient(self, *, changed: bool) -> bool:
        """Whether something may still come of going on as now, after an offer that has changed something or not."""
        if changed or self.engine.is_busy:
            self._idle_offers = 0
            return True
        self._idle_offers += 1
        triggers = self.engine.control.triggers
        counts = (triggers.every_beat or triggers.every_offer) and self.engine.jobs
        return self._idle_offers <= (PATIENCE if counts else 1) * len(self.engine.config.nodes)


#: Profiles by name; `Profile` says what one is.
profiles: Final[Registry[Profile]] = Registry("profile", "rm_emulator.engine.profiles", worlds=("emulator",))
#: Who decides, where that is not one scheduler at once, by the kind of its block. Each takes the place of a profile.
architectures: Final[Registry[Profile]] = Registry(
    "architecture", "rm_emulator.engine.architectures", worlds=("emulator",)
)
