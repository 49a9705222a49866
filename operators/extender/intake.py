"""Objects set aside: not told to the core, each with a reason.

Tenants' objects are hostile until read. A malformed object, an object closed off from its queue, or an object known to
have broken the brain is set aside: alone, with a reason shown to the owner.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
import structlog

from operators import metrics
from operators.cache.cache import Cache, Change
from schedulers.objects.meta import Meta, Stored
from schedulers.objects.names import DEFAULT_QUEUE

log = structlog.get_logger()

#: Reasons: a value cannot be read; the queue does not exist, or is not for the object's namespace; the object has
#: broken the brain.
UNREADABLE: Final = "Unreadable"
QUEUE_NOT_FOUND: Final = "QueueNotFound"
QUEUE_NOT_ALLOWED: Final = "QueueNotAllowed"
BROKE_THE_BRAIN: Final = "BrokeTheBrain"
#: Breaks of the brain after which the object heard is set aside. One break may be another object's fault: the next term
#: is built from the objects alone.
_BREAKS: Final = 2


class SetAside(Exception):
    """An object is not for the core as things are; `reason` is CamelCase. is_usual: objects to come will let it in."""

    def __init__(self, reason: str, message: str, *, is_usual: bool = False) -> None:
        self.reason, self.message, self.is_usual = reason, message, is_usual
        super().__init__(message)


class Broken(Exception):
    """The brain could not take in a fact, or answer for a pod; the error is the cause.

    `change` is the fact, or the pod asked about (as a change from the pod to itself).
    """

    def __init__(self, change: Change, error: Exception) -> None:
        super().__init__(f"{change.kind} {item_of(change).key}: {type(error).__name__}: {error}")
        self.change, self.__cause__ = change, error


def item_of(change: Change) -> Stored:
    """The object of a change, in its present or last state."""
    item: Stored = change.new if change.new is not None else change.old
    return item


class Breaks:
    """How often each object was heard when the brain broke, by uid; kept from term to term of a process."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def note(self, broken: Broken) -> None:
        """The brain has broken at this object."""
        self._counts[item_of(broken.change).metadata.uid] += 1

    def check(self, item: Stored) -> None:
        """Raises SetAside for an object heard at too many breaks."""
        if self._counts[item.metadata.uid] >= _BREAKS:
            raise SetAside(BROKE_THE_BRAIN, f"the scheduler failed {_BREAKS} times at this object; see its log")


class Aside(msgspec.Struct, frozen=True):
    """An object set aside, with its kind and the reason."""

    kind: str
    meta: Meta
    reason: str
    message: str


class Intake:
    """Objects set aside in one term, by uid."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.aside: dict[str, Aside] = {}
        self.to_report: dict[str, None] = {}
        """Uids of objects with an owner to be told; `StatusWriter` clears the dict."""

    def set_aside(self, kind: str, item: Stored, why: SetAside) -> None:
        """The core hears no more of this object than before."""
        meta = item.metadata
        known, told = self.aside.get(meta.uid), Aside(kind, meta, why.reason, why.message)
        self.aside[meta.uid] = told
        # Told once per reason: an object is heard again with each of its changes.
        if known is None or (known.reason, known.message) != (told.reason, told.message):
            self.to_report[meta.uid] = None
            metrics.SET_ASIDE_TOTAL.labels(kind=kind, reason=why.reason).inc()
            say = log.info if why.is_usual else log.warning
            say("an object is set aside", kind=kind, name=item.key, reason=why.reason, why=why.message)
        metrics.SET_ASIDE.set(len(self.aside))

    def take(self, item: Stored) -> None:
        """The object is told to the core, or gone."""
        if self.aside.pop(item.metadata.uid, None) is not None:
            self.to_report[item.metadata.uid] = None
            metrics.SET_ASIDE.set(len(self.aside))

    def waiting_for_queues(self) -> list[Aside]:
        """Objects that a change of queues or namespaces may let in."""
        return [aside for aside in self.aside.values() if aside.reason in (QUEUE_NOT_FOUND, QUEUE_NOT_ALLOWED)]

    def check_queue(self, namespace: str, queue: str) -> None:
        """Raises SetAside unless the queue exists and every queue up to the root is open to the namespace.

        Admission refuses most such jobs at once. Here the jobs missed by admission wait: the queue was restricted, or
        the namespace relabelled, while the job came.
        """
        if queue not in self._cache.queues and queue != DEFAULT_QUEUE:
            raise SetAside(QUEUE_NOT_FOUND, f"queue '{queue}' does not exist; the job waits until that queue is there")
        there = self._cache.namespaces.get(namespace)
        passed: set[str] = set()
        at = self._cache.queues.get(queue)
        # `passed` ends the walk in a circle of parents, which tenants can write.
        while at is not None and at.metadata.name not in passed:
            name = at.metadata.name
            passed.add(name)
            chosen = at.spec.namespaces
            # The labels of a namespace not heard of yet are unknown, so a selector cannot pass.
            if chosen is not None and (there is None or not chosen.selects(there.metadata.labels)):
                above = "" if name == queue else f", which is below queue '{name}',"
                raise SetAside(
                    QUEUE_NOT_ALLOWED,
                    f"queue '{queue}'{above} is not for namespace '{namespace}' (see spec.namespaces of Queue {name})",
                )
            parent = at.spec.parent
            at = self._cache.queues.get(parent)
            if at is None and parent not in ("", DEFAULT_QUEUE):  # the missing queue may have been restricted
                raise SetAside(
                    QUEUE_NOT_FOUND,
                    f"queue '{name}' names parent '{parent}', which does not exist; the job waits until it is there",
                )
