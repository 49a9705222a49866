"""The tree of queues: parents and children, the resources held by each queue, and the limits of each.

An account counts the resources held by a queue, or by a user inside a queue, and the number of its admitted jobs. A
container is charged to its leaf's account and to all accounts above; accounts with a limit decide whether a container
may start at all. Nothing here decides an order: orders are the policies' part.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from schedulers.core.errors import InvalidQueue
from schedulers.core.model import Limit, Queue
from schedulers.core.resources import Resources, Vector, show_steps

#: A component of a limit without effect.
UNLIMITED: Final = -1
#: Largest number of characters of a written share.
_LONGEST_SHARE: Final = 32
#: Floating-point noise of a share times a capacity: 0.29 of 100 is 29.
_NOISE: Final = 1e-9

Group = tuple[str, str | None]


class Account(msgspec.Struct, eq=False):
    """Holdings of a queue (user None) or of a user inside a queue."""

    queue: str
    user: str | None
    used: list[int]
    """Resources of its containers."""
    limit: Limit = None
    most: tuple[int, ...] | None = None
    """Resources held at most in the present cluster; None: no limit."""
    jobs: int = 0
    """Number of live jobs let in."""
    most_jobs: int | None = None
    """Largest number of jobs let in at once; None: no limit."""

    def takes(self, demand: Vector, count: int = 1) -> bool:
        """Whether `count` more containers of the given demand stay within the limit."""
        return self.scarce(demand, count) is None

    def scarce(self, demand: Vector, count: int = 1) -> int | None:
        """The first resource over its limit after `count` more containers, or None."""
        if self.most is not None:
            for r, wanted in enumerate(demand):
                if wanted and self.used[r] + count * wanted > self.most[r]:
                    return r
        return None

    def most_of(self, demand: Vector) -> float:
        """Number of containers of the given demand allowed in an empty account; infinite without a limit."""
        if self.most is None:
            return math.inf
        return min((most // wanted for most, wanted in zip(self.most, demand, strict=True) if wanted), default=math.inf)

    @property
    def within(self) -> bool:
        """Whether holdings and jobs are within the limits; false after limits were lowered below the holdings."""
        held = self.most is None or all(used <= most for used, most in zip(self.used, self.most, strict=True))
        return held and (self.most_jobs is None or self.jobs <= self.most_jobs)

    @property
    def is_full_of_jobs(self) -> bool:
        """Whether no further job is let in."""
        return self.most_jobs is not None and self.jobs >= self.most_jobs

    def resize(self, capacity: Sequence[int]) -> None:
        """Work out the limit anew: a share is a share of the present cluster."""
        self.most = None if self.limit is None else amount(self.limit, capacity)


class Path(msgspec.Struct, eq=False):
    """The accounts of a user in a leaf, from the leaf up."""

    accounts: tuple[Account, ...] = ()
    bounds: tuple[Account, ...] = ()
    """Accounts with a limit on resources."""
    group: Group | None = None
    """Key of all containers with the same limits; None without a limit."""


_NOWHERE: Final = Path()


class QueueTree:
    """The queues by name, in order of declaration, and their accounts."""

    def __init__(self, resources: int) -> None:
        self.queues: dict[str, Queue] = {}
        # Removed queues, with the number of the first job to come too late for each. They keep weight and limits, so
        # that jobs submitted before go on as they were.
        self.removed: dict[str, int] = {}
        self.version = 0  # counts changes of shape, weights and limits
        self._capacity: tuple[int, ...] = (0,) * resources
        self._accounts: dict[Group, Account] = {}
        self._paths: dict[Group, Path] = {}
        self._shares: list[Account] = []  # accounts whose limit follows the cluster's capacity

    # -- shape ----------------------------------------------------------------------------------

    def put(self, queue: Queue) -> None:
        """Declare a queue, or change a queue; every account begins at zero again."""
        self.queues[queue.name] = queue
        self.removed.pop(queue.name, None)
        self.version += 1
        self.clear()

    def remove(self, name: str, seq: int) -> None:
        """Take a queue away: jobs from number `seq` on are not let in."""
        self.removed[name] = seq

    def up(self, name: str) -> list[str]:
        """The queue and all queues above; a missing parent or a cycle ends the way."""
        way: list[str] = []
        while name and name not in way:
            way.append(name)
            queue = self.queues.get(name)
            name = queue.parent if queue is not None and queue.parent in self.queues else ""
        return way

    def below(self) -> dict[str, list[str]]:
        """Direct children of each queue, in order of declaration; '' is the root. Leaves have no entry."""
        found: dict[str, list[str]] = {}
        for name in self.queues:
            way = self.up(name)
            # A queue of a cycle counts as a child of the root, so that a walk from the root reaches every queue.
            parent = way[1] if len(way) > 1 and self.queues[way[-1]].parent not in way else ""
            found.setdefault(parent, []).append(name)
        return found

    def collapsed_weight(self, name: str) -> float:
        """A queue's part of the whole by weights alone: the product of its parts on the way up (H-DRF, section 3.2)."""
        siblings = self.below()
        part = 1.0
        for at in self.up(name):
            mine = self.queues[at].weight if at in self.queues else 1.0
            beside = next((names for names in siblings.values() if at in names), siblings.get("", []))
            part *= mine / (sum(self.queues[other].weight for other in beside) or 1.0)
        return part

    # -- accounts -------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all holdings, to be charged anew."""
        self._accounts.clear()
        self._paths.clear()
        self._shares.clear()

    def resize(self, capacity: Iterable[int]) -> None:
        """The cluster has another capacity now."""
        self._capacity = tuple(capacity)
        for account in self._shares:
            account.resize(self._capacity)

    def path(self, queue: str, user: str) -> Path:
        """The accounts of a user's containers in a queue; none at all while no queue is declared."""
        if not self.queues:
            return _NOWHERE
        # Kept, because every task is charged to its path at its start and at its end.
        path = self._paths.get((queue, user))
        if path is None:
            path = self._paths[queue, user] = self._make_path(queue, user)
        return path

    def _make_path(self, queue: str, user: str) -> Path:
        accounts: list[Account] = []
        for name in self.up(queue):
            spec = self.queues.get(name)
            each = spec.per_user if spec is not None else None
            if each is not None:
                accounts.append(self._account(name, user, each.limit, each.max_running))
            most, jobs = (spec.max, spec.max_running) if spec is not None else (None, None)
            accounts.append(self._account(name, None, most, jobs))
        bounds = tuple(account for account in accounts if account.limit is not None)
        # Users share a group where no limit is per user: fewer sizes, so fewer lists of fitting nodes.
        mine = any(account.user is not None for account in bounds)
        return Path(tuple(accounts), bounds, (queue, user if mine else None) if bounds else None)

    def _account(self, queue: str, user: str | None, limit: Limit, most_jobs: int | None) -> Account:
        account = self._accounts.get((queue, user))
        if account is None:
            account = Account(queue, user, [0] * len(self._capacity), limit, most_jobs=most_jobs)
            account.resize(self._capacity)
            self._accounts[queue, user] = account
            if isinstance(limit, float):
                self._shares.append(account)
        return account

    def bounds(self, group: Group | None) -> tuple[Account, ...]:
        """Accounts that limit the containers of a group."""
        if group is None:
            return ()
        queue, user = group
        return self.path(queue, user or "").bounds

    def charge(self, queue: str, user: str, demand: Vector, sign: int) -> bool:
        """A container came (1) or went (-1). Returns whether any of its accounts has a limit."""
        path = self.path(queue, user)
        for account in path.accounts:
            used = account.used
            for r, wanted in enumerate(demand):
                used[r] += sign * wanted
        return path.group is not None

    def count(self, queue: str, user: str, sign: int) -> None:
        """A job was let in (1) or is gone (-1)."""
        for account in self.path(queue, user).accounts:
            account.jobs += sign

    def used(self, queue: str, user: str | None = None) -> Vector:
        """Resources held by a queue, or by a user inside a queue with limits per user."""
        account = self._accounts.get((queue, user))
        return (0,) * len(self._capacity) if account is None else tuple(account.used)

    def accounts(self) -> Iterator[Account]:
        """All accounts ever charged."""
        return iter(self._accounts.values())

    # -- letting jobs in ------------------------------------------------------------------------

    def full(self, queue: str, user: str) -> Account | None:
        """The first account to refuse a further job of the user, or None."""
        # From the leaf up, so that the message names the queue nearest to the job.
        return next((account for account in self.path(queue, user).accounts if account.is_full_of_jobs), None)

    def closed(self, queue: str, seq: int) -> str | None:
        """The first queue, on the way up, removed before job number `seq` came, or None."""
        if self.removed:
            for name in self.up(queue):
                if seq >= self.removed.get(name, sys.maxsize):
                    return name
        return None


def amount(limit: Limit, capacity: Sequence[int]) -> tuple[int, ...]:
    """A limit in the present cluster: a share rounded down, an unlimited component as large as can be."""
    if limit is None:
        return (sys.maxsize,) * len(capacity)
    if isinstance(limit, float):
        # Rounded down like every capacity, so that shares never add up to more than the cluster.
        return tuple(math.floor(limit * there + _NOISE) for there in capacity)
    return tuple(sys.maxsize if part == UNLIMITED else part for part in limit)


def parse_limit(value: str | float | Mapping[str, Any] | None, resources: Resources, unnamed: int) -> Limit:
    """A limit as written by people: `{cpu: 4, memory: 8Gi}`, `25%`, or 0.25. unnamed: value of unnamed resources.

    Raises InvalidQuantity, or InvalidQueue with the accepted forms.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        steps = resources.capacity(value)  # refuses names unknown to the cluster
        return tuple(s if n in value else unnamed for n, s in zip(resources.names, steps, strict=True))
    return parse_share(value)


def parse_share(value: str | float) -> float:
    """A share of the cluster from `25%` or 0.25. Raises InvalidQueue."""
    # Anything may stand where a share should: numbers of thousands of digits, lists.
    is_number = isinstance(value, int | float) and -1 <= value <= 1
    is_short = is_number or (isinstance(value, str) and len(value) <= _LONGEST_SHARE)
    text = str(value).strip() if is_short else ""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1:
        seen = repr(value) if is_short else f"a {type(value).__name__}"
        raise InvalidQueue(
            f"{seen} is not a share of the cluster (expected '25%', 0.25, or resources such as {{cpu: 4}})"
        )
    return share


class Mistake(msgspec.Struct, frozen=True):
    """A mistake in a queue: its field, and a message with the value seen and the values accepted."""

    queue: str
    field: str
    message: str


def mistakes(queues: Sequence[Queue], resources: Resources, capacity: Sequence[int]) -> Iterator[Mistake]:
    """Senseless settings in a tree of queues on a cluster of the given capacity, in order of declaration."""
    tree = QueueTree(len(resources))
    for queue in queues:
        tree.put(queue)
    for queue in queues:
        yield from _own_mistakes(queue, resources, capacity)
        parent = tree.queues.get(queue.parent)
        if parent is not None and parent.guaranteed is not None:
            yield from _beyond(queue, parent, resources, capacity)
    for name, below in tree.below().items():
        above = tree.queues[name].guaranteed if name else 1.0
        yield from _sum_mistakes([tree.queues[child] for child in below], name, above, resources, capacity)


def _own_mistakes(queue: Queue, resources: Resources, capacity: Sequence[int]) -> Iterator[Mistake]:
    if not (queue.weight > 0 and math.isfinite(queue.weight)):
        yield Mistake(queue.name, "weight", f"weight is {queue.weight:g} (expected a number above 0)")
    each = queue.per_user.max_running if queue.per_user is not None else None
    for field, count in (("max_running", queue.max_running), ("per_user", each)):
        if count is not None and count < 1:
            yield Mistake(queue.name, field, f"at most {count} running jobs would run none (expected at least 1)")
    if queue.guaranteed is not None and queue.max is not None:
        r = _more(amount(queue.guaranteed, capacity), amount(queue.max, capacity))
        if r is not None:
            shown = _show(queue.guaranteed, queue.max, r, resources, capacity)
            message = f"max is below what is guaranteed: {shown[1]} of {resources.names[r]} for {shown[0]} guaranteed"
            yield Mistake(queue.name, "max", message)


def _beyond(queue: Queue, parent: Queue, resources: Resources, capacity: Sequence[int]) -> Iterator[Mistake]:
    if queue.guaranteed is None:
        return
    r = _more(amount(queue.guaranteed, capacity), amount(parent.guaranteed, capacity))
    if r is not None:
        mine, above = _show(queue.guaranteed, parent.guaranteed, r, resources, capacity)
        message = f"guaranteed is {mine} of {resources.names[r]}, more than the {above} of its parent '{parent.name}'"
        yield Mistake(queue.name, "guaranteed", message)


def _sum_mistakes(
    children: Sequence[Queue], name: str, above: Limit, resources: Resources, capacity: Sequence[int]
) -> Iterator[Mistake]:
    """Together siblings may not be guaranteed more than the parent is, or than the cluster has."""
    given = [child for child in children if child.guaranteed is not None]
    if above is None or not given or (name and len(given) == 1):
        return  # one alone was held against its parent already
    # Shares alone are compared as shares: rounding to resources could make 50% and 50% exceed the cluster.
    shares = [child.guaranteed for child in given if isinstance(child.guaranteed, float)]
    if isinstance(above, float) and len(shares) == len(given):
        if sum(shares) > above + _NOISE:
            message = _sum_message(given, _percent(sum(shares)), _percent(above), name)
            yield Mistake(given[-1].name, "guaranteed", message)
        return
    total = [sum(parts) for parts in zip(*(amount(child.guaranteed, capacity) for child in given), strict=True)]
    most = amount(above, capacity)
    r = _more(total, most)
    if r is not None:
        said = [f"{show_steps(resources.names[r], part)} of {resources.names[r]}" for part in (total[r], most[r])]
        yield Mistake(given[-1].name, "guaranteed", _sum_message(given, said[0], said[1], name))


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"


def _sum_message(given: Sequence[Queue], together: str, most: str, name: str) -> str:
    names = ", ".join(f"'{queue.name}'" for queue in given)
    whole = f"queue '{name}' is guaranteed" if name else "the cluster has"
    return f"{names} are guaranteed {together} together, and {whole} {most}"


def _more(left: Sequence[int], right: Sequence[int]) -> int | None:
    return next((r for r, (a, b) in enumerate(zip(left, right, strict=True)) if a > b), None)


def _show(left: Limit, right: Limit, r: int, resources: Resources, capacity: Sequence[int]) -> tuple[str, str]:
    shown = []
    for limit in (left, right):
        exact = f"{_percent(limit)} = " if isinstance(limit, float) else ""
        shown.append(exact + show_steps(resources.names[r], amount(limit, capacity)[r]))
    return shown[0], shown[1]


def check_queue(queue: Queue, resources: int) -> None:
    """Raise InvalidQueue unless its numbers make sense by themselves: the core's own guard."""
    if not (queue.weight > 0 and math.isfinite(queue.weight)):
        raise InvalidQueue(f"queue '{queue.name}' has weight {queue.weight} (a finite number above 0)")
    for limit in (queue.guaranteed, queue.max, queue.per_user and queue.per_user.limit):
        if isinstance(limit, float) and not 0 <= limit <= 1:
            raise InvalidQueue(f"queue '{queue.name}' has a limit of {limit} (a share from 0 to 1, or a vector)")
        if isinstance(limit, tuple) and len(limit) != resources:
            raise InvalidQueue(f"queue '{queue.name}' has a limit of {len(limit)} resources, not {resources}")
