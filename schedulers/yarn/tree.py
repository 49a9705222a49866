"""The declared queues in YARN's form: a tree below `root`, whatever their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from schedulers.core.model import Limit, Queue
from schedulers.core.queues import UNLIMITED
from schedulers.core.resources import Vector

ROOT = "root"
#: The leaf for an inner queue's own jobs; no declared queue can have the name.
OWN = "(own)"
#: So far from 1 capacities may be together (CapacitySchedulerConfiguration's PRECISION).
ROUNDING = 0.001


class Branch(msgspec.Struct, frozen=True):
    """A queue with all queues below. path: with the names above, as `root.prod.etl`; queue: as declared."""

    path: str
    queue: Queue
    kids: tuple[Branch, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return _last(self.queue.name)

    def all(self) -> Iterator[Branch]:
        """The branch and all branches below, parents first."""
        yield self
        for kid in self.kids:
            yield from kid.all()


def tree(queues: Mapping[str, Queue], used: Iterable[str]) -> Branch:
    """The tree of the declared queues and of queues only `used` by jobs, each below the root.

    A queue may be declared by its whole path (as in Hadoop's files) or by a name of its own. YARN's jobs are in leaves
    only: jobs of an inner queue are in its leaf `(own)`.
    """
    wanted = list(dict.fromkeys(used))
    below: dict[str, list[Queue]] = {}
    for queue in (*queues.values(), *(Queue(name=name) for name in wanted if name not in queues)):
        if queue.name != ROOT:
            below.setdefault(_parent(queue.name, queues) or ROOT, []).append(queue)
    if not below:
        below[ROOT] = [Queue(name="default")]
    return _branch(Queue(name=ROOT), "", below, set(wanted))


def unknown(paths: Iterable[str], queues: Mapping[str, Queue], used: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Paths without a queue, each with a sentence."""
    known = [branch.path for branch in tree(queues, used).all()]
    for path in paths:
        if path not in known:
            yield path, f"there is no queue '{path}' (queues: {', '.join(known)})"


def path_of(queue: str, queues: Mapping[str, Queue]) -> str:
    """Where the jobs of a queue are in the tree."""
    parts, at = [] if queue == ROOT else [_last(queue)], queue
    if queue == ROOT or any(q.parent == queue and _parent(name, queues) == queue for name, q in queues.items()):
        parts.insert(0, OWN)
    while at := _parent(at, queues):
        parts.append(_last(at))
    return ".".join([ROOT, *reversed(parts)])


def _parent(name: str, queues: Mapping[str, Queue]) -> str:
    """The queue above, or '' for the root; a missing parent and a cycle end the way up, as in the core's tree."""
    way, at = [name], name
    while name != ROOT:
        queue = queues.get(at)
        at = queue.parent if queue is not None else ""
        if at == ROOT or at not in queues:
            return way[1] if way[1:] else ""
        if at in way:
            break
        way.append(at)
    return ""


def _branch(queue: Queue, above: str, below: Mapping[str, list[Queue]], used: AbstractSet[str]) -> Branch:
    path = f"{above}.{_last(queue.name)}" if above else _last(queue.name)
    kids = tuple(_branch(kid, path, below, used) for kid in below.get(queue.name, ()))
    if kids and queue.name in used:
        kids += (Branch(f"{path}.{OWN}", Queue(name=OWN)),)
    return Branch(path, queue, kids)


def _last(name: str) -> str:
    """`etl` of `root.prod.etl`. Any other dot would look like a path, and is written as in Hadoop."""
    if name.startswith(f"{ROOT}."):
        return name.rpartition(".")[2]
    return name.replace(".", "_dot_")


def parts(kids: Sequence[Branch], own: Sequence[float | None]) -> list[float]:
    """Each sibling's part of their parent's capacity, as YARN's capacities: together 1.

    own: the part set for each, or None. The rest goes to siblings without a part by their weights, or to all in
    proportion where every sibling has a part.
    """
    left = max(0.0, 1.0 - sum(part for part in own if part is not None))
    weight = sum(kid.queue.weight for kid, part in zip(kids, own, strict=True) if part is None)
    shares = [left * kid.queue.weight / weight if part is None else part for kid, part in zip(kids, own, strict=True)]
    total = sum(shares)
    if abs(total - 1) <= ROUNDING:
        return shares
    return [part / total if total else 1 / len(kids) for part in shares]


def fraction(limit: Limit, cluster: Vector) -> float | None:
    """A limit in YARN's form, a number for all resources: the largest, and so never stricter than declared.

    None: no limit.
    """
    if limit is None or isinstance(limit, float):
        return limit
    if UNLIMITED in limit:
        return None
    shares = [part / whole for part, whole in zip(limit, cluster, strict=True) if part > 0 and whole > 0]
    return max(shares, default=None)
