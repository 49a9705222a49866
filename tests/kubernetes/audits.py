"""What is seen of a cluster from outside while it is tried: every change of every pod, and who leads."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from math import ceil
from typing import Any, Final, NamedTuple

from devcluster.cluster import Devcluster
from operators.cache.reflector import Change, Kind, Reflector
from operators.client import ApiError, Client, NotFound
from schedulers.objects import names
from schedulers.objects.pod import Pod
from tests.kubernetes.installed import Installed

#: Between two looks at readiness and Leases, s.
LOOK_S: Final = 0.5
#: So long after the API server answers again a brain decides.
RECOVERY_S: Final = 10.0
#: A leader that has not reached the API server gives its Lease up, and another one takes it, within so long, s.
HANDOVER_S: Final = 30.0
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{names.NAMESPACE}/leases"
_UNITS: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


class Audit:
    """What every pod has been through, from the changes that a watch of its own brings.

    over: moments at which a node (of `cpus`) held more than it has, whosever pods they were. Of the pods in `space`:
    twice: tasks that succeeded more than once. stopped: pods of ours that ran and were gone, or failed, without having
    succeeded. again: pods of a task that had one already. partial_s: how long a gang was bound in part.
    """

    def __init__(self, space: str, cpus: int) -> None:
        self.over: list[str] = []
        self.twice: list[str] = []
        self.stopped: list[str] = []
        self.again: list[str] = []
        self._space, self._cpus = space, cpus
        self._pods: dict[tuple[str, str, str], str] = {}
        self.partial_s = 0.0
        self.made = self.succeeded = 0
        self._used: Counter[str] = Counter()
        self._done: dict[tuple[str, str, str], str] = {}
        self._gangs: dict[tuple[str, str], dict[str, Pod]] = {}
        self._partial: dict[tuple[str, str], float] = {}

    def hear(self, change: Change) -> None:
        """One change of one pod."""
        old: Pod | None = change.old
        new: Pod | None = change.new
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self.hear(Change("Pod", old, None))  # one took the other's name while nothing was heard
            old = None
        self._count(old, new)
        pod = new or old
        assert pod is not None
        if pod.metadata.namespace == self._space:
            self.made += old is None
            self._follow(pod, old, new)
            self._look_at_gang(pod, new)

    def _count(self, old: Pod | None, new: Pod | None) -> None:
        held, holds = _held(old), _held(new)
        self._used.subtract(held)
        self._used.update(holds)
        for node, used in holds.items():
            if used > held.get(node, 0) and self._used[node] > 1000 * self._cpus:
                self.over.append(f"{node} {self._used[node]}m")

    def _follow(self, pod: Pod, old: Pod | None, new: Pod | None) -> None:
        labels = pod.metadata.labels
        if not pod.dagjob_uid:
            return
        task = (pod.dagjob_uid, labels[names.STAGE_LABEL], labels[names.INDEX_LABEL])
        if self._pods.setdefault(task, pod.metadata.uid) != pod.metadata.uid:
            self._pods[task] = pod.metadata.uid
            self.again.append(pod.key)
        if new is not None and new.status.phase == "Succeeded" and (old is None or old.status.phase != "Succeeded"):
            self.succeeded += 1
            if self._done.setdefault(task, pod.metadata.uid) != pod.metadata.uid:
                self.twice.append(pod.key)
        ran = old is not None and old.is_running
        if ran and (new is None or new.status.phase == "Failed") and task not in self._done:
            self.stopped.append(pod.key)

    def _look_at_gang(self, pod: Pod, new: Pod | None) -> None:
        if pod.metadata.labels.get(names.STAGE_LABEL) != "gang":
            return
        gang = (pod.dagjob_uid, "gang")
        pods, now = self._gangs.setdefault(gang, {}), time.monotonic()
        if new is None:
            pods.pop(pod.key, None)
        else:
            pods[pod.key] = new
        bound = any(each.spec.nodeName for each in pods.values())
        if bound and any(each.is_gated for each in pods.values()):
            self._partial.setdefault(gang, now)
        elif gang in self._partial:
            self.partial_s = max(self.partial_s, now - self._partial.pop(gang))

    def partial_now(self) -> float:
        """How long a gang has been bound in part by now, or was before; s."""
        now = time.monotonic()
        return max([self.partial_s, *(now - since for since in self._partial.values())])


def _held(pod: Pod | None) -> dict[str, int]:
    """What a pod holds on its node, in thousandths of a CPU."""
    if pod is None or not pod.spec.nodeName or pod.is_terminal:
        return {}
    return {pod.spec.nodeName: sum(_milli(each.resources.requests.get("cpu", 0)) for each in pod.spec.containers)}


def _milli(amount: str | float) -> int:
    """A quantity as the API server writes it, in thousandths."""
    found = re.fullmatch(r"(-?[\d.]+(?:[eE]-?\d+)?)([numkKMGTPE]?)(i?)", str(amount))
    assert found is not None, amount
    number, unit, binary = found.groups()
    power = _UNITS[unit.replace("K", "k")]
    return ceil(1000 * Decimal(number) * (Decimal(1024) ** (power // 3) if binary else Decimal(10) ** power))


class Held(NamedTuple):
    """Who was last seen to hold a Lease, for the how manieth time it had changed hands, and since when (s)."""

    holder: str
    transitions: int
    since: float


class Presence:
    """Whether a brain decides, and whose the Leases are, asked every half second.

    gap_s: longest time in which no replica led while the API server answered; the first RECOVERY_S after it came
    back are left out. changes: of leaders of whom none was killed, and that the API server had not been away from.
    """

    def __init__(self, installed: Installed) -> None:
        self.gap_s, self.changes = 0.0, list[str]()
        self._installed = installed
        self._led_at, self._away_at = time.monotonic(), 0.0
        self._killed: dict[str, float] = {}
        self._held: dict[str, Held] = {}

    def _urls(self) -> list[str]:
        ports = [replica.ports[8081] for replica in self._installed.brain.replicas]
        return [f"http://127.0.0.1:{port}/metrics" for port in ports]

    def killed(self, replica: str) -> None:
        """To be told before a replica is killed."""
        self._killed[replica] = time.monotonic()

    async def run(self, client: Client) -> None:
        """Until cancelled."""
        while True:
            try:
                async with asyncio.timeout(2):
                    for name in (names.BRAIN_LEASE, names.CONTROLLERS_LEASE):
                        self._see(name, await client.get(f"{_LEASES}/{name}"))
            except NotFound:
                pass
            except (ApiError, TimeoutError):
                self._away_at = time.monotonic()
            led = await asyncio.gather(*(asyncio.to_thread(_leads, url) for url in self._urls()))
            now = time.monotonic()
            if any(led) or now < self._away_at + RECOVERY_S:
                self._led_at = now
            self.gap_s = max(self.gap_s, now - self._led_at)
            await asyncio.sleep(LOOK_S)

    def _see(self, name: str, lease: dict[str, Any]) -> None:
        spec, now = lease["spec"], time.monotonic()
        holder, transitions = spec.get("holderIdentity") or "", int(spec.get("leaseTransitions") or 0)
        before = self._held.get(name)
        if before is not None and (not holder or transitions == before.transitions):
            return  # nobody's for a moment, or as it was
        self._held[name] = Held(holder, transitions, now)
        if before is None:
            return
        was_killed = self._killed.get(before.holder.rpartition("_")[0], 0.0) > before.since
        if not was_killed and now > self._away_at + HANDOVER_S:
            self.changes.append(f"{name}: {before.holder} -> {holder}")


@contextmanager
def watched(cluster: Devcluster, audit: Audit, presence: Presence) -> Iterator[Reflector[Pod]]:
    """The audit hears of every pod, and the presence is asked for, in a thread of its own."""
    loop, box = asyncio.new_event_loop(), list[Reflector[Pod]]()

    async def watch() -> None:
        async with cluster.client() as client, asyncio.TaskGroup() as group:
            box.append(Reflector(client, Kind("Pod", Pod, "/api/v1/pods"), audit.hear, last_pause_s=1.0))
            group.create_task(box[0].run())
            group.create_task(presence.run(client))

    task = loop.create_task(watch())
    thread = threading.Thread(target=_run_quietly, args=(loop, task), daemon=True)
    thread.start()
    while not box or not box[0].synced:
        time.sleep(0.1)
    try:
        yield box[0]
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


def _leads(url: str) -> bool:
    """Whether the brain of these metrics says that it decides."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=1) as answer:
            return b"\nrm_leader 1.0\n" in answer.read()
    except OSError:
        return False


def _run_quietly(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    try:
        loop.run_until_complete(task)
    except asyncio.CancelledError:
        loop.close()


def exceptions(installed: Installed) -> list[str]:
    """Lines of our parts' logs that tell of a mistake of ours."""
    parts = [*installed.brain.replicas, *installed.controllers.replicas]
    logs = [(replica.name, container.process.log) for replica in parts for container in replica.containers.values()]
    return [
        f"{name}: {line}"
        for name, log in logs
        for line in log.read_text(errors="replace").splitlines()
        if "the brain broke" in line or "Traceback (most recent call last)" in line
    ]
