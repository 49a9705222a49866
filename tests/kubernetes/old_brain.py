"""What a brain of this version leaves behind when it dies: the objects on the API server, and its files.

    python -m tests.kubernetes.old_brain FOLDER

Each folder `tests/data/brain-N` was made by the program of its time; a version that writes something else makes one
more, and the older ones stay.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from operators.client import Client
from operators.extender.history import History
from operators.extender.snapshots import Snapshots
from operators.extender.status import wait_report
from operators.lease import Lease, Term
from schedulers.core.model import PastJob
from schedulers.objects import names
from schedulers.objects.dagjob import DagJob
from schedulers.objects.memory import BrainSnapshot
from schedulers.objects.node import NodeObject
from schedulers.objects.pod import Condition, Pod, PodStatus
from schedulers.objects.queue import QueueObject
from tests.kubernetes.store import Store, StoreClient, VirtualLoop, run_virtual
from tests.kubernetes.world import World, stage

POLICY: Final = "gs"
PREDICTOR: Final = "slearn"
TERM: Final = Term("2026-01-01T00:00:00Z", 3)
OBJECTS, HISTORY, LOG = "objects.json", "history.sqlite", "events.jsonl"


class Left(msgspec.Struct):
    """All objects of one cluster as the API server has them.

    stored: Lease and ConfigMaps, each under its path.
    """

    nodes: list[NodeObject]
    queues: list[QueueObject]
    dagjobs: list[DagJob]
    pods: list[Pod]
    stored: dict[str, dict[str, Any]]


class Found(NamedTuple):
    """What a new leader finds. snapshot: as the ConfigMaps hold it; history: as the file does."""

    left: Left
    snapshot: bytes
    history: list[PastJob]
    log: list[bytes]


def busy() -> tuple[World, bytes]:
    """A cluster in the middle of its work, and the snapshot that its brain had stored a while before it died."""
    world = World((4, 4, 4), policy=POLICY, predictor=PREDICTOR)
    world.put_queue("prod", weight=3)
    world.put_queue("etl", parent="prod", max="75%")
    world.put_queue("lab", maxRunning=1)
    world.submit(stage("map", 3), queue="lab", user="ada")
    world.settle()  # one job is history
    wide = world.submit(stage("map", 20), stage("sum", 2, "map"), queue="etl", user="ada")
    world.submit(stage("load", 2), stage("ring", 3, "load", gang=True), queue="prod", user="bob")
    world.submit(stage("fit", 2), retries=1, queue="lab", deadline="2h")
    world.submit(stage("fit", 2), queue="lab")  # lets one job run at a time
    world.plain()
    failures = iter((1, 0, 0, 0, 0, 1))
    while not any(what == "plan" for what, _ in world.writes.pending):
        _step(world, failures)
    world.submit(stage("map", 30), queue="etl", user="eve")  # its pilots run while the gang begins
    world.create_pods()
    world.brain.cycle()
    snapshot = world.brain.snapshot()
    _half_released_gang(world)
    succeeded = next(pod for pod in world.pods_of(wide, "map") if pod.exit_code == 0)
    world.collect(succeeded)  # the job's status alone remembers its task
    _say_why(world)
    return world, snapshot


def _step(world: World, failures: Iterator[int]) -> None:
    """What is pending is written and bound, the oldest two of all pods end, and the brain decides."""
    world.write()
    world.bind()
    for pod in list(world.bound())[:2]:
        world.start(pod)
        world.finish(world.lists.pods[pod.key], code=next(failures, 0))
    world.create_pods()
    world.brain.cycle()


def _half_released_gang(world: World) -> None:
    """The plan of a gang and its first release are written; the brain dies before the others are."""
    at = next(number for number, (what, _) in enumerate(world.writes.pending) if what == "plan")
    world.write(at + 2)
    world.bind()
    first = next(world.bound())
    world.start(first)


def _say_why(world: World) -> None:
    """Status fields and conditions of what waits, as `StatusWriter` reports them."""
    for entry in world.brain.jobs:
        said = wait_report(world.brain, entry)
        job = world.lists.dagjobs.get(entry.key)
        if said is None or job is None:
            continue
        status = msgspec.structs.replace(job.status, **msgspec.structs.asdict(said))
        world._put("DagJob", world.lists.dagjobs, DagJob(job.metadata, job.spec, status))
        condition = Condition(names.WAITING_CONDITION, "True", said.reason, said.message)
        for pod in world.gated(job):
            world.change(pod, status=PodStatus(phase="Pending", conditions=[condition]))


def leave(folder: Path) -> None:
    """Write everything into a new folder."""
    folder.mkdir(parents=True)
    world, snapshot = busy()
    store = Store()

    async def write(_: VirtualLoop) -> None:
        client = cast(Client, StoreClient(store))
        await Snapshots(client, term=lambda: TERM).store(snapshot)
        lease = Lease(client, name=names.BRAIN_LEASE, namespace=names.NAMESPACE, identity="brain-0")
        await lease._acquire()

    run_virtual(write)
    lists = world.lists
    left = Left(
        *(list(kind.values()) for kind in (lists.nodes, lists.queues, lists.dagjobs, lists.pods)), store.objects
    )
    (folder / OBJECTS).write_bytes(msgspec.json.encode(left, order="sorted") + b"\n")
    with closing(History(folder / HISTORY)) as history:
        history.add(*world.writes.history)
    world.log.flush()
    (folder / LOG).write_bytes(world.logs[-1])


def find(folder: Path) -> Found:
    """Read what `leave` left, as a new leader does."""
    left = msgspec.json.decode((folder / OBJECTS).read_bytes(), type=Left)
    store = Store()
    store.objects = left.stored

    async def load(_: VirtualLoop) -> bytes | None:
        return await Snapshots(cast(Client, StoreClient(store))).load()

    snapshot = run_virtual(load)
    assert snapshot is not None
    with closing(History(folder / HISTORY)) as history:
        return Found(left, snapshot, history.recent(100), (folder / LOG).read_bytes().splitlines(keepends=True))


def settled(found: Found, *, snapshot: bool = True) -> World:
    """A cluster with these objects, whose new brain has taken over."""
    world = World((), policy=POLICY, predictor=PREDICTOR)
    left, lists = found.left, world.lists
    lists.nodes = {node.metadata.name: node for node in left.nodes}
    lists.queues = {queue.key: queue for queue in left.queues}
    lists.dagjobs = {job.key: job for job in left.dagjobs}
    lists.pods = {pod.key: pod for pod in left.pods}
    world._numbers, world.clock = 500, 2_000_000
    world.new_leader(found.snapshot if snapshot else None, history=() if snapshot else found.history)
    return world


def planned(job: DagJob) -> dict[str, dict[str, str]]:
    """The plan of its gangs as the old brain wrote it: by stage and index the node."""
    return msgspec.json.decode(job.metadata.annotations.get(names.GANG_PLAN, "{}"), type=dict[str, dict[str, str]])


def containers(snapshot: bytes) -> dict[int, str]:
    """By container the uid of its pod."""
    return msgspec.msgpack.decode(snapshot, type=BrainSnapshot).pods


if __name__ == "__main__":
    leave(Path(sys.argv[1]))
