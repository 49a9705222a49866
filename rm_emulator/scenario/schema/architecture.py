"""Who decides in a cluster: one scheduler, or several, and how they go about it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rm_emulator.scenario.schema.decider import Decider
from rm_emulator.scenario.schema.values import NAME, Block, Count, Duration, Interval


class Jobs(Block):
    """Which jobs come here: those of any of these queues, users or kinds, or all where none is named."""

    queues: list[Annotated[str, Field(min_length=1)]] = []
    """Their queues, e.g. `[prod]`."""
    users: list[Annotated[str, Field(min_length=1)]] = []
    """Their users, e.g. `[alice]`."""
    kinds: list[Literal["batch", "service"]] = []
    """What they are, e.g. `[service]`."""


class Path(Jobs):
    """Jobs that one scheduler thinks about for a time of their own."""

    t_job: Duration = 100
    """How long it thinks about a job in an attempt, e.g. `6s`."""
    t_task: Duration = 5
    """And for each of its tasks that are not placed yet, e.g. `1s`."""


class Thinker(Path):
    """A scheduler, or framework, with a queue of jobs of its own, that works on one at a time."""

    name: Annotated[str, Field(pattern=NAME, max_length=60)]
    """What results call it, e.g. `batch`."""
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    """So many of them, called NAME-1, NAME-2, ...; each job goes to the next one, e.g. `4`."""
    policy: Decider | None = None
    """Its policy, predictor and placement; those of the label when left out, e.g. `{kind: gs, predictor: {kind:
    slearn}}`.
    """

    @property
    def names(self) -> list[str]:
        """What each of them is called."""
        return [self.name] if self.count == 1 else [f"{self.name}-{number + 1}" for number in range(self.count)]


class GiveUp(Block):
    """When a job is given up: after an attempt, when more than so many were in vain."""

    none_placed: Count = 100
    """Attempts, as long as none of its tasks was placed, e.g. `10`."""
    attempts: Count = 1000
    """Attempts in all, e.g. `50`."""


class Central(Block):
    """One scheduler that decides on everything; with think times, Omega's monolithic scheduler."""

    kind: Literal["central"]
    """One for all, e.g. `central`."""
    t_job: Duration = 0
    """How long it thinks about a job in an attempt; it decides at once where it never thinks, e.g. `100ms`."""
    t_task: Duration = 0
    """And for each of its tasks that are not placed yet, e.g. `5ms`."""
    paths: list[Path] = []
    """Jobs it thinks about for another time: multi path, e.g. `[{kinds: [service], t_job: 6s}]`."""
    retry: Interval = 1000
    """A job with tasks left is in the queue again so long after an attempt, e.g. `5s`."""
    give_up: GiveUp = GiveUp()
    """When it gives a job up, e.g. `{attempts: 50}`."""


class TwoLevel(Block):
    """Mesos: all that is free is offered to one framework at a time, and locked while that thinks."""

    kind: Literal["two_level"]
    """Offers to frameworks, e.g. `two_level`."""
    schedulers: Annotated[list[Thinker], Field(min_length=1)]
    """The frameworks, e.g. `[{name: service, kinds: [service], t_job: 6s}, {name: batch}]`."""
    retry: Interval = 1000
    """A job with tasks left is in the queue again so long after an attempt, e.g. `5s`."""
    give_up: GiveUp = GiveUp()
    """When a framework gives a job up, e.g. `{attempts: 50}`."""


class SharedState(Block):
    """Omega: schedulers with private copies of the cluster, whose claims are committed or refused."""

    kind: Literal["shared_state"]
    """Private copies and commits, e.g. `shared_state`."""
    schedulers: Annotated[list[Thinker], Field(min_length=1)]
    """The schedulers, e.g. `[{name: service, kinds: [service], t_job: 6s}, {name: batch, count: 4}]`."""
    conflict: Literal["resource_fit", "sequence"] = "resource_fit"
    """What refuses a claim: too little room on its node, or any start there since the copy, e.g. `sequence`."""
    commit: Literal["incremental", "all_or_nothing"] = "incremental"
    """What a refused claim means for the others of its attempt, e.g. `all_or_nothing`."""
    own_ends: Literal["afterwards", "at_once"] = "afterwards"
    """When a scheduler hears of ends of its own tasks while it thinks: with its next copy, as in Omega's simulator, or
    at once, e.g. `at_once`.
    """
    retry: Interval = 1000
    """A job with tasks left is in the queue again so long after an attempt, e.g. `5s`."""
    give_up: GiveUp = GiveUp()
    """When a scheduler gives a job up, e.g. `{attempts: 50}`."""


class Decentralised(Block):
    """Sparrow: schedulers that know nothing of the cluster, and workers with queues."""

    kind: Literal["decentralised"]
    """Probes and reservations, e.g. `decentralised`."""
    schedulers: Count = 1
    """How many; each job goes to the next one, e.g. `10`."""
    method: Literal["random", "per_task", "batch", "late_binding"] = "late_binding"
    """How workers are chosen, e.g. `batch`."""
    probe_ratio: Annotated[float, Field(ge=1)] = 2.0
    """Probes, or reservations, for each task of a job, e.g. `1.05`."""
    constraints: bool = False
    """Whether a task with input runs only on nodes that hold it, e.g. `true`."""
    constrained_probe_ratio: Annotated[float, Field(ge=1)] = 2.0
    """Reservations for each task that does, e.g. `3`."""
    cancellation: bool = True
    """Whether reservations are taken back once a job's last task is handed out, e.g. `false`."""
    message_delay: Duration = 1
    """How long a message is under way, e.g. `5ms`."""
    slots_per_worker: Count | None = None
    """So many tasks run on a node at once; as many as fit when left out, e.g. `4`."""
    worker_order: Literal["fifo", "user_round_robin", "priority"] = "fifo"
    """Who is next at a worker, e.g. `user_round_robin`."""


Architecture = Annotated[Central | TwoLevel | SharedState | Decentralised, Field(discriminator="kind")]
