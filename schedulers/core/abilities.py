"""Abilities: what a policy can do beyond suggesting tasks, each a small class that a policy also inherits from.

The core asks `ability(policy, Kind)` once; a policy around another one has the abilities of the inner one too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from schedulers.core.events import SearchEnded
    from schedulers.core.model import Queue
    from schedulers.core.policy import ClusterView, Planned, Promise, Victim
    from schedulers.core.rehearsal import Script
    from schedulers.core.state import JobState

Mistakes = Iterable[tuple[tuple[str, ...], str]]


class Ability(ABC):  # noqa: B024 (an ability may be a mark alone)
    """Base of all abilities. A plug-in may define one of its own; nothing has to be told of it."""

    without: frozenset[type[Ability]] = frozenset()
    """Abilities of the class that this policy, set as it is, does not have; an attribute of the instance."""


K = TypeVar("K", bound=Ability)


def ability(policy: object, kind: type[K]) -> K | None:
    """The policy itself, or the first one inside it (`inside`), that has the ability; None: none has."""
    there: Any = policy
    while there is not None:
        if isinstance(there, kind) and kind not in there.without:
            return there
        there = getattr(there, "inside", None)
    return None


# -- what a policy does -----------------------------------------------------------------------------


class Preempts(Ability):
    """Names containers to be killed. Asked after each fact; the log shows a `Preempt` for each."""

    @abstractmethod
    def victims(self, view: ClusterView) -> Sequence[Victim]:
        """Containers to be killed now; each is named once."""


class Plans(Ability):
    """Plans jobs, for whoever watches. Asked after facts; the log shows nothing."""

    @abstractmethod
    def new_plans(self) -> Mapping[str, Planned]:
        """By job the plans made since this was asked last."""


class Rehearses(Ability):
    """Wants jobs played forward on estimates, and makes promises. Asked after facts; the log shows `Rehearsed`."""

    @abstractmethod
    def new_scripts(self) -> Mapping[str, Script]:
        """By job what is to be played since this was asked last; the result is told as `Rehearsed`."""

    @abstractmethod
    def new_promises(self) -> Mapping[str, Promise]:
        """By job the promises made since this was asked last, for whoever watches."""


class Urges(Ability):
    """Starts tasks that do not count as waiting (copies, leases). Read before each offer; the log shows the starts."""

    urges: Collection[str] = ()
    """Nodes on which there is something to start that nobody waits for, so that these nodes are on offer."""


class DecidesInCycles(Ability):
    """Decides something for itself in a cycle, room or not. Read before each fact; that `Tick` stands in the log."""

    due = False
    """Whether the next cycle is needed."""


class Searches(Ability):
    """Searches for a limited time, so that a replay cannot repeat the search. Read after each fact."""

    found: SearchEnded | None = None
    """The outcome of the last search; the core logs it and takes it away."""


class Remembers(Ability):
    """Changes its memory without a decision. Asked after each fact; a fact that was noted stands in the log."""

    noted = False
    """Whether the memory has changed since the core asked last."""

    def take_note(self) -> bool:
        """Whether the memory has changed since this was asked last."""
        noted, self.noted = self.noted, False
        return noted


class TellsTurn(Ability):
    """Says whose turn it is, for explanations and statuses. Asked at any time: no decision may depend on the answer."""

    def line(self, view: ClusterView) -> Sequence[str] | None:
        """Waiting jobs in the order of serving, as of the last round; None: there is no such order."""
        return None

    def passes_by(self, job: JobState, view: ClusterView) -> str | None:
        """In words, why a waiting job is not served although there is room and nobody is named before it."""
        return None


class MindsQueues(Ability):
    """Follows settings of queues beyond limits, which hold whatever the policy. Asked of the class, by settings."""

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """Which of a queue's `weight`, `guaranteed` and `preemptible` the policy follows."""
        return ()

    @classmethod
    def mistakes(cls, params: Any, queues: Mapping[str, Queue], used: Collection[str]) -> Mistakes:
        """Settings that do not go with the declared queues and those that jobs name: keys down to them, a sentence."""
        return ()


class AssignsAhead(Ability):
    """Assigns tasks to nodes, where the tasks wait in line."""

    @abstractmethod
    def offered(self, offers: str) -> None:
        """How nodes are offered, as in SchedulerConfig; said once, before anything is heard."""


class Copies(Ability):
    """Copies tasks where copies are allowed; the log shows one more `Place` for a task."""


class OrdersAhead(Ability):
    """Has an order of jobs and stages, in which a placer may assign tasks to nodes before they can start (`deft`)."""

    ahead = False
    """Whether the order holds until then: who is next depends on no start."""


# -- what a policy needs or refuses (schedulers/core/compatible.py) -----------------------------------


class NeedsCopies(Copies):
    """Is poor without its copies, so that it is refused where there are none."""


class NeedsEstimates(Ability):
    """Makes its order of estimates, so that it makes no sense without a predictor."""


class KeepsNodes(Ability):
    """Makes reservations, or a plan, of its own, so that the core makes none and starts nothing past it."""


class OneTaskEach(Ability):
    """Serves only containers that end with their task, none that outlive tasks (executors)."""


# -- asked of classes -------------------------------------------------------------------------------


def uses_of_queues(policy: type, params: Any) -> Collection[str]:
    """See MindsQueues: of a policy's class; nothing for a policy that minds no queues."""
    return policy.uses_of_queues(params) if issubclass(policy, MindsQueues) else ()


def mistakes(policy: type, params: Any, queues: Mapping[str, Queue], used: Collection[str]) -> Mistakes:
    """See MindsQueues: of a policy's class; none for a policy that minds no queues."""
    return policy.mistakes(params, queues, used) if issubclass(policy, MindsQueues) else ()
