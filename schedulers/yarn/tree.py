"""The declared queues as YARN wants them: one tree below `root`, whatever they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from schedulers.core.model import Queue

ROOT = "root"


class Branch(msgspec.Struct, frozen=True):
    """A queue and those below it. path: with the names above it, as `root.prod.etl`; name: the last part."""

    name: str
    path: str
    weight: float = 1.0
    kids: tuple[Branch, ...] = ()


def tree(queues: Mapping[str, Queue], used: Iterable[str]) -> Branch:
    """The tree of the declared queues and of those that are only `used` by jobs, each below the root.

    A queue may be declared by its whole path (as Hadoop's files have it) or by a name of its own.
    """
    below: dict[str, list[Queue]] = {}
    for queue in queues.values():
        if queue.name != ROOT:
            below.setdefault(queue.parent or ROOT, []).append(queue)
    known = set(queues)
    for name in used:
        if name not in known and name != ROOT:
            known.add(name)
            below.setdefault(ROOT, []).append(Queue(name=name))
    if not below:
        below[ROOT] = [Queue(name="default")]
    return _branch(Queue(name=ROOT), "", below)


def path_of(queue: str, queues: Mapping[str, Queue]) -> str:
    """Where a queue's name stands in the tree."""
    parts, at = [_last(queue)], queues.get(queue)
    while at is not None and at.parent and at.parent != ROOT:
        parts.append(_last(at.parent))
        at = queues.get(at.parent)
    return ".".join([ROOT, *reversed(parts)])


def _branch(queue: Queue, above: str, below: Mapping[str, list[Queue]]) -> Branch:
    name = _last(queue.name)
    path = f"{above}.{name}" if above else name
    kids = tuple(_branch(kid, path, below) for kid in below.get(queue.name, ()))
    return Branch(name, path, queue.weight, kids)


def _last(name: str) -> str:
    """`etl` of `root.prod.etl`."""
    return name.rpartition(".")[2] if name.startswith(f"{ROOT}.") else name
