"""The declared queues as YARN wants them: one tree below `root`, whatever they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from schedulers.core.model import Queue

ROOT = "root"
#: The leaf of a queue with others below it that its own jobs are in; no queue can be called so.
OWN = "(own)"


class Branch(msgspec.Struct, frozen=True):
    """A queue and those below it. path: with the names above it, as `root.prod.etl`; name: the last part."""

    name: str
    path: str
    weight: float = 1.0
    kids: tuple[Branch, ...] = ()


def tree(queues: Mapping[str, Queue], used: Iterable[str]) -> Branch:
    """The tree of the declared queues and of those that are only `used` by jobs, each below the root.

    A queue may be declared by its whole path (as Hadoop's files have it) or by a name of its own. YARN's jobs are in
    leaves only: those of a queue that has others below it are in its leaf `(own)`.
    """
    wanted = list(dict.fromkeys(used))
    below: dict[str, list[Queue]] = {}
    for queue in (*queues.values(), *(Queue(name=name) for name in wanted if name not in queues)):
        if queue.name != ROOT:
            below.setdefault(_parent(queue.name, queues) or ROOT, []).append(queue)
    if not below:
        below[ROOT] = [Queue(name="default")]
    return _branch(Queue(name=ROOT), "", below, set(wanted))


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
    name = _last(queue.name)
    path = f"{above}.{name}" if above else name
    kids = tuple(_branch(kid, path, below, used) for kid in below.get(queue.name, ()))
    if kids and queue.name in used:
        kids += (Branch(OWN, f"{path}.{OWN}"),)
    return Branch(name, path, queue.weight, kids)


def _last(name: str) -> str:
    """`etl` of `root.prod.etl`. Any other dot would look like a path, and is written as Hadoop writes it."""
    if name.startswith(f"{ROOT}."):
        return name.rpartition(".")[2]
    return name.replace(".", "_dot_")
