"""What the engine needs to know of a cluster: fully resolved, integers only, no defaults left open."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rm_emulator.engine.known import architecture, profile
from rm_emulator.workload.model import Drawn, Fixed
from schedulers.core.model import Decentralised as DecentralisedSettings
from schedulers.core.model import Job, Links, Node, Queue


class Disorder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seeded disorder, because determinism without it hides races.

    permute: facts of the same instant reach the scheduler in a random order.
    delay: probability that a heartbeat or completion is heard late, by up to delay_ms.
    duplicate: probability that a heartbeat or completion is heard twice.
    late: probability that a decision takes effect late, by up to late_ms.
    """

    permute: bool = True
    delay: float = 0.0
    delay_ms: int = 1000
    duplicate: float = 0.0
    late: float = 0.0
    late_ms: int = 1000


class Executors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Containers that outlive tasks, as in Spark (Decima, section 6.2; hongzimao/decima-sim:param.py).

    moving_ms: cost of taking up an executor, new or from another job.
    warmup_ms: added to a first-wave duration when no fresh duration was measured.
    inverted_levels: choose between two measured levels of parallelism as the released code does, which
        inverts the interpolation (spark_env/node.py); False interpolates.
    """

    moving_ms: int = 2000
    warmup_ms: int = 1000
    inverted_levels: bool = True


class Kubernetes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a cluster adds between a decision and its effect, and between an effect and our hearing of it.

    cycle_ms: facts are gathered so long before the core decides. create_ms: from a stage's turn to its first pod;
    create_rate, release_rate: pods created, and gates removed, per second. start_ms: from the removed gate to the
    running container (bind, start). seen_ms: from a change of a pod to the watch that tells of it.
    whole_seconds: a pod ends at a whole second of the clock, because its start is stamped in whole seconds; so
    fake kubelets do. Defaults measured on a devcluster of two cores (docs/kubernetes.md).
    """

    cycle_ms: int = 50
    create_ms: int = 30
    create_rate: float = 130.0
    release_rate: float = 230.0
    start_ms: int = 40
    seen_ms: int = 5
    whole_seconds: bool = True


class JobsOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs of any of these queues, users or kinds; all jobs where none is named."""

    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    kinds: tuple[Literal["batch", "service"], ...] = ()

    def takes(self, job: Job) -> bool:
        """Whether the job is one of them."""
        named = self.queues or self.users or self.kinds
        return not named or job.queue in self.queues or job.user in self.users or job.kind in self.kinds


class Thinker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scheduler that works on one job at a time. An attempt takes it t_job_ms, and t_task_ms for each unplaced task.

    jobs: those that it takes of what those before it have left.
    """

    name: str
    jobs: JobsOf = JobsOf()
    t_job_ms: int = 100
    t_task_ms: int = 5


class Thinking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all architectures in which schedulers think have.

    retry_ms: from an attempt to the moment at which its job is in the queue again, if tasks of it are left.
    give_up: a job is given up after more attempts than the first as long as none of its tasks was placed, or than the
    second in all.
    """

    retry_ms: int = 1000
    give_up: tuple[int, int] = (100, 1000)


class Central(Thinking, frozen=True, kw_only=True, tag="central"):
    """One scheduler that thinks; Omega's monolithic scheduler. paths: think times by job, the first that takes it."""

    paths: tuple[Thinker, ...]


class TwoLevel(Thinking, frozen=True, kw_only=True, tag="two_level"):
    """Frameworks to one of which at a time all that is free is offered."""

    schedulers: tuple[Thinker, ...]


class SharedState(Thinking, frozen=True, kw_only=True, tag="shared_state"):
    """Schedulers with private copies of the cluster, whose claims are committed or refused."""

    schedulers: tuple[Thinker, ...]
    conflict: Literal["resource_fit", "sequence"] = "resource_fit"
    commit: Literal["incremental", "all_or_nothing"] = "incremental"
    own_ends: Literal["afterwards", "at_once"] = "afterwards"


class Decentralised(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="decentralised"
):
    """Schedulers that know nothing of the cluster, and workers with queues (Sparrow).

    message_ms: how long each message is under way. slots_per_worker: None for as many as tasks fit on the node.
    settings: how they find each other.
    """

    message_ms: int = 1
    slots_per_worker: int | None = None
    settings: DecentralisedSettings = DecentralisedSettings()


Architecture = Central | TwoLevel | SharedState | Decentralised


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and how it behaves.

    profile: how the resource manager hears and acts, a name of `rm_emulator.engine.profiles`.
    heartbeat_ms, am_heartbeat_ms: intervals of nodes and application masters.
    skip: skip heartbeats that cannot change anything; False beats every node every interval (same log).
    startup: time between launch and the task's first instant.
    containers_per_heartbeat: at most so many new containers per node heartbeat; None: as many as fit.
    executors: keep containers between tasks, or None.
    links: how fast data goes from node to node; None: it takes no time.
    architecture: who decides, and when; None: one scheduler, when the profile says.
    """

    nodes: tuple[Node, ...]
    resources: tuple[str, ...] = ("cpu", "memory")
    queues: tuple[Queue, ...] = ()
    profile: str = "yarn"
    heartbeat_ms: int = 1000
    am_heartbeat_ms: int = 1000
    skip: bool = True
    startup: Fixed | Drawn = Fixed(0)
    containers_per_heartbeat: int | None = None
    executors: Executors | None = None
    disorder: Disorder | None = None
    kubernetes: Kubernetes = Kubernetes()
    links: Links | None = None
    architecture: Architecture | None = None

    @property
    def when(self) -> type[Any]:
        """When things are heard and acted upon: the class of the architecture, else of the profile."""
        if self.architecture is None:
            return profile(self.profile)
        return architecture(str(self.architecture.__struct_config__.tag))

    @property
    def offers(self) -> Literal["heartbeat", "cycle", "thought"]:
        """What a scheduler is offered: the node that beats, all nodes in each cycle, or to the job it thought about."""
        offers: Literal["heartbeat", "cycle", "thought"] = self.when.offers
        return offers
