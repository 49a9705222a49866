"""Abilities: skills of a policy beyond suggesting tasks, each a small class for a policy to inherit from as well.

The core asks `ability(policy, Kind)` once. A policy around an inner policy has the abilities of the inner policy too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from schedulers.core.old_names import OldName, TakesOldNames, old_classes

if TYPE_CHECKING:
    from schedulers.core.events import SearchEnded
    from schedulers.core.model import Queue
    from schedulers.core.policy import ClusterView, Planned, Promise, Victim
    from schedulers.core.rehearsal import Script
    from schedulers.core.state import JobState

Mistakes = Iterable[tuple[tuple[str, ...], str]]


class Ability(TakesOldNames, ABC):
    """Base of all abilities. A plug-in may define an ability of its own and need not announce the class anywhere."""

    # On the instance, because settings may switch an ability off: the class alone cannot tell.
    without: frozenset[type[Ability]] = frozenset()
    """Abilities of the class missing from this policy because of its settings; an attribute of the instance."""


K = TypeVar("K", bound=Ability)


def ability(policy: object, kind: type[K]) -> K | None:
    """The policy itself, or the first policy inside (`inside`), with the ability; None: no policy has the ability."""
    there: Any = policy
    while there is not None:
        if isinstance(there, kind) and kind not in there.without:
            return there
        there = getattr(there, "inside", None)
    return None


# -- acts of a policy -------------------------------------------------------------------------------


class Preempts(Ability):
    """Names containers to be killed. Asked after each fact; the log shows a `Preempt` for each."""

    @abstractmethod
    def victims(self, view: ClusterView) -> Sequence[Victim]:
        """Containers to be killed now; each is named once."""


class Plans(Ability):
    """Plans jobs, for people to watch. Asked after facts; the log shows nothing."""

    @abstractmethod
    def new_plans(self) -> Mapping[str, Planned]:
        """Plans made since the last call, by job."""


class Rehearses(Ability):
    """Wants jobs played forward on estimates, and makes promises. Asked after facts; the log shows `Rehearsed`."""

    @abstractmethod
    def new_scripts(self) -> Mapping[str, Script]:
        """Rehearsals wanted since the last call, by job; the core hears each result as `Rehearsed`."""

    @abstractmethod
    def new_promises(self) -> Mapping[str, Promise]:
        """Promises made since the last call, by job, for people to watch."""


class WantsNodes(Ability):
    """Starts tasks not counted as waiting (copies, planned ones). Read before each offer; the log shows the starts."""

    # A plain attribute, because the core reads the value before every offer.
    wanted_nodes: Collection[str] = ()
    """Nodes with something to start besides waiting tasks, so that the core offers these nodes."""
    urges = OldName("wanted_nodes")


class DecidesInCycles(Ability):
    """Decides something for itself in a cycle, room or not. Read before each fact; the log keeps a needed `Tick`."""

    needs_cycle = False
    """Whether the next cycle is needed."""
    due = OldName("needs_cycle")


class Searches(Ability):
    """Searches for a limited time, so that a replay cannot repeat the search. Read after each fact."""

    search_result: SearchEnded | None = None
    """The outcome of the last search; the core logs the outcome and sets the field to None."""
    has_budget = False
    """Whether searches are stopped by `clock`, so that a second run may decide otherwise."""
    clock: Callable[[], float] | None = None
    """Time in s, from a shell that has a clock; None: searches end after their steps."""
    found = OldName("search_result")


class Remembers(Ability):
    """Changes its memory without a decision. Asked after each fact; the log keeps the facts with such a change."""

    memory_changed = False
    """Whether the memory has changed since the core asked last."""

    def pop_memory_changed(self) -> bool:
        """Whether the memory has changed since the last call."""
        changed, self.memory_changed = self.memory_changed, False
        return changed

    noted = OldName("memory_changed")
    take_note = OldName("pop_memory_changed")


class PassesBeats(Ability):
    """Counts every beat (`Triggers.every_beat`), and knows when beats change nothing; the log keeps such beats."""

    @abstractmethod
    def beats_pass(self, view: ClusterView) -> bool:
        """Whether beats change nothing, nor lead to a suggestion, before the next fact of another kind.

        Asked while no task waits.
        """


class TellsTurn(Ability):
    """Says whose turn comes next, for explanations and statuses. No decision may depend on the answer."""

    def line(self, view: ClusterView) -> Sequence[str] | None:
        """Waiting jobs in the order of serving, as of the last round; None: there is no such order."""
        return None

    def passes_by(self, job: JobState, view: ClusterView) -> str | None:
        """Words on why a waiting job is not served although there is room and `line` names nobody before the job."""
        return None


class MindsDeadlines(Ability):
    """Follows the deadlines of jobs, which are only measured under all other policies."""


class MindsQueues(Ability):
    """Follows settings of queues beyond limits, which hold under every policy. Asked of the class, by settings."""

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """The settings of a queue, among `weight`, `guaranteed` and `preemptible`, followed by the policy."""
        return ()

    @classmethod
    def mistakes(cls, params: Any, queues: Mapping[str, Queue], used: Collection[str]) -> Mistakes:
        """Settings in conflict with the queues declared or named by jobs: path of keys, and a sentence."""
        return ()


class AssignsAhead(Ability):
    """Assigns tasks to nodes, where the tasks wait in the node's queue."""

    @abstractmethod
    def set_offers(self, offers: str) -> None:
        """How nodes are offered, as in SchedulerConfig; told once, before any fact."""

    offered = OldName("set_offers")


class Copies(Ability):
    """Copies tasks where copies are allowed; the log shows a `Copy` for each."""


class OrdersAhead(Ability):
    """Has an order of jobs and stages, so that a placer may assign tasks to nodes before they can start (`deft`)."""

    order_is_stable = False
    """Whether the order holds until the start of the tasks: no start changes the order."""
    ahead = OldName("order_is_stable")


# -- needs and refusals of a policy (schedulers/core/compatible.py) -----------------------------------


class NeedsCopies(Copies):
    """Is poor without its copies, and therefore refused where copies are not allowed."""


class NeedsEstimates(Ability):
    """Makes its order of estimates, and therefore makes no sense without a predictor."""


class KeepsNodes(Ability):
    """Makes reservations, or a plan, of its own, so that the core makes none and starts nothing past the policy."""


class PlaysExecutors(Ability):
    """Plays executors that outlive their tasks, and is of no use elsewhere; an oracle tells it run times by wave."""

    @classmethod
    def missing(cls) -> str:
        """A sentence about a missing module: its name, and the extra to install; '' where plays can begin."""
        return ""


class OneTaskEach(Ability):
    """Serves only containers of a single task each, no executors."""


# -- asked of classes -------------------------------------------------------------------------------


def uses_of_queues(policy: type, params: Any) -> Collection[str]:
    """See MindsQueues: asked of a policy's class; nothing for a policy without the ability."""
    return policy.uses_of_queues(params) if issubclass(policy, MindsQueues) else ()


def mistakes(policy: type, params: Any, queues: Mapping[str, Queue], used: Collection[str]) -> Mistakes:
    """See MindsQueues: asked of a policy's class; none for a policy without the ability."""
    return policy.mistakes(params, queues, used) if issubclass(policy, MindsQueues) else ()


if not TYPE_CHECKING:  # a type checker would take every name for an attribute of this module
    __getattr__ = old_classes(__name__, {"Urges": "WantsNodes"})
