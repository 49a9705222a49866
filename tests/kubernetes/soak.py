"""An hour of foreign load on the production overlay, with a kill each minute: is anything lost, or done twice?

`python -m tests.kubernetes.soak [--minutes 60] [--seed 1] [--out FILE]` runs DagJobs of four queues, plain pods, a
batch Job and pods of the default scheduler, on 100 fake nodes, kills a part of ours or of the control plane each
minute, and looks at every change of every pod. It ends with 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from operators.cache.reflector import Change, Kind, Reflector
from operators.devcluster.cluster import Devcluster
from schedulers.objects import names
from schedulers.objects.pod import Pod
from tests.kubernetes.installed import Installed, a_devcluster, accepted, dagjob, stage

NODES, CPUS, SHARED = 100, 8, 4
QUEUES: Final = {"gold": {"weight": 4}, "silver": {"weight": 2}, "bronze": {"weight": 1, "max": {"cpu": "240"}}}
JOBS = 60
#: A gang may be bound piece by piece, and a kill may come in between: it has to be whole after so long.
WHOLE_S = 60.0
#: So long after the last submission everything is done.
END_S = 1800.0
#: Longest time that the API server or etcd is away, s.
OUTAGE_S = 25.0


class Audit:
    """What every pod has been through, from the changes that a watch of its own brings.

    over: moments at which a node held more than it has. twice: tasks that succeeded more than once. stopped: pods of
    ours that ran and were gone, or failed, without having succeeded. partial_s: how long a gang was bound in part.
    """

    def __init__(self) -> None:
        self.over: list[str] = []
        self.twice: list[str] = []
        self.stopped: list[str] = []
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
        self._follow(old, new)
        self._look_at_gang(old, new)

    def _count(self, old: Pod | None, new: Pod | None) -> None:
        self.made += old is None
        held, holds = _held(old), _held(new)
        self._used.subtract(held)
        self._used.update(holds)
        for node, used in holds.items():
            if used > held.get(node, 0) and self._used[node] > 1000 * CPUS:
                self.over.append(f"{node} {self._used[node]}m")

    def _follow(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        labels = pod.metadata.labels
        if not pod.dagjob_uid:
            return
        task = (pod.dagjob_uid, labels[names.STAGE_LABEL], labels[names.INDEX_LABEL])
        if new is not None and new.status.phase == "Succeeded" and (old is None or old.status.phase != "Succeeded"):
            self.succeeded += 1
            if self._done.setdefault(task, pod.metadata.uid) != pod.metadata.uid:
                self.twice.append(pod.key)
        ran = old is not None and old.is_running
        if ran and (new is None or new.status.phase == "Failed") and task not in self._done:
            self.stopped.append(pod.key)

    def _look_at_gang(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
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
    asked = (str(container.resources.requests.get("cpu", "0")) for container in pod.spec.containers)
    return {pod.spec.nodeName: sum(int(a[:-1]) if a.endswith("m") else 1000 * int(a) for a in asked)}


@contextmanager
def watched(cluster: Devcluster, audit: Audit) -> Iterator[Reflector[Pod]]:
    """The audit hears of every pod, in a thread of its own."""
    loop, box = asyncio.new_event_loop(), list[Reflector[Pod]]()

    async def watch() -> None:
        async with cluster.client() as client:
            box.append(Reflector(client, Kind("Pod", Pod, "/api/v1/pods"), audit.hear, last_pause_s=1.0))
            await box[0].run()

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


def _run_quietly(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    try:
        loop.run_until_complete(task)
    except asyncio.CancelledError:
        loop.close()


# -- the load -----------------------------------------------------------------------------------


def load(seed: int, minutes: float, space: str) -> list[tuple[float, dict[str, Any]]]:
    """(second, object) in order: 60 DagJobs of up to 2,000 tasks, plain pods, a batch Job, pods of others."""
    draw, span = random.Random(seed), 50 * minutes
    sizes = [max(1, round(draw.lognormvariate(4, 1.1))) for _ in range(JOBS)]
    sizes[0], scale = 2000, minutes / 60
    objects: list[tuple[float, dict[str, Any]]] = []
    for number, tasks in enumerate(sizes):
        at = 0.0 if number < 3 else draw.uniform(0, span)
        objects.append((at, _job(draw, f"job{number:02d}", space, max(1, round(tasks * scale)))))
    objects += [(draw.uniform(0, span), _pod(f"plain{n}", space, names.SCHEDULER)) for n in range(round(120 * scale))]
    objects += [
        (draw.uniform(0, span), _pod(f"other{n}", space, "default-scheduler")) for n in range(round(200 * scale))
    ]
    objects.append((span / 3, _batch_job(space)))
    return sorted(objects, key=lambda entry: entry[0])


def _job(draw: random.Random, name: str, space: str, tasks: int) -> dict[str, Any]:
    """A map stage, then half of the times a reduce stage or a gang."""
    stages = [stage("map", tasks, draw.randint(30, 240), cpu=draw.choice(["1", "2", "2", "4"]))]
    kind = draw.random()
    if kind < 0.25:
        stages.append(
            stage("gang", draw.choice([4, 8, 20]), draw.randint(20, 120), cpu="8", gang=True, parents=["map"])
        )
    elif kind < 0.5:
        stages.append(stage("reduce", max(1, tasks // 8), draw.randint(20, 120), parents=["map"]))
    return dagjob(name, space, stages, queue=draw.choice([*QUEUES, "default"]), retries=3)


def _pod(name: str, space: str, scheduler: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    labels = {names.QUEUE_LABEL: "default"} if scheduler == names.SCHEDULER else {}
    meta = {"name": name, "namespace": space, "labels": labels, "annotations": {names.RUN_SECONDS: "60"}}
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _batch_job(space: str) -> dict[str, Any]:
    pod = _pod("batch", space, names.SCHEDULER)
    template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    spec = {"completions": 40, "parallelism": 20, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch", "namespace": space}, "spec": spec}


# -- the kills ----------------------------------------------------------------------------------


def kill(installed: Installed, draw: random.Random) -> str:
    """SIGKILL for one part, drawn; returns which it was. The control plane's come back after at most OUTAGE_S."""
    part = draw.choice(
        ["brain", "brain", "kube-scheduler", "kube-scheduler", "controllers", "controllers", "apiserver", "etcd"]
    )
    if part in ("apiserver", "etcd"):
        installed.cluster.kill(part)
        time.sleep(draw.uniform(0, OUTAGE_S))
        installed.cluster.start(part)
        return part
    running = installed.controllers if part == "controllers" else installed.brain
    running.kill(part, draw.randrange(len(running.replicas)))
    return part


# -- all of it ----------------------------------------------------------------------------------


def soak(cluster: Devcluster, minutes: float, seed: int) -> dict[str, Any]:
    """One soak; what came of it, by name."""
    draw, audit = random.Random(seed), Audit()
    kills: Counter[str] = Counter()
    cluster.add_nodes(NODES - 4, prefix="m", cpu=str(CPUS), reserved=True)
    cluster.add_nodes(SHARED, prefix="shared", cpu=str(CPUS))
    _start_default_scheduler(cluster)
    space = cluster.namespace("soak")
    with ExitStack() as stack:
        installed = Installed(cluster, overlay="production", brain={"policy": {"kind": "hdrf"}})
        stack.callback(installed.stop)
        for name, spec in QUEUES.items():
            queue = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
            _create(cluster, queue)
        pods = stack.enter_context(watched(cluster, audit))
        objects, begin = load(seed, minutes, space), time.monotonic()
        next_kill = begin + 30
        while (now := time.monotonic()) < begin + 60 * minutes or objects:
            if objects and begin + objects[0][0] <= now:
                _create(cluster, objects.pop(0)[1])
            elif now >= next_kill and now < begin + 60 * minutes:
                kills[kill(installed, draw)] += 1
                next_kill += 60 if now < next_kill + 60 else 120
                _say(f"{(now - begin) / 60:5.1f} min: {sum(kills.values())} kills, {audit.succeeded} tasks done")
            else:
                time.sleep(0.2)
        unfinished = _unfinished_after(cluster, space, END_S)
        took = time.monotonic() - begin
        time.sleep(2)  # the watch is a moment behind
        said = installed.said(*(name.split(":")[0] for name in unfinished)) if unfinished else ""
        unheard = pods.unheard
    return {
        "minutes": took / 60,
        "tasks that succeeded": audit.succeeded,
        "pods that were made": audit.made,
        "kills": ", ".join(f"{part} {count}" for part, count in sorted(kills.items())),
        "jobs that did not end": unfinished,
        "tasks that succeeded twice": audit.twice,
        "running tasks that were stopped": audit.stopped,
        "moments at which a node was over-committed": audit.over,
        "longest time that a gang was bound in part, s": audit.partial_now(),
        "changes that the watcher could not take in": unheard,
        "facts replayed with identical decisions": installed.replay(cut=True),
        "said": said,
    }


def _start_default_scheduler(cluster: Devcluster) -> None:
    config = cluster.scheduler_config()
    config["profiles"] = [{"schedulerName": "default-scheduler"}]
    file = cluster.folder / "default-scheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    cluster.start("scheduler", config=file)


def _create(cluster: Devcluster, item: dict[str, Any]) -> None:
    """Until it is there: the API server may be away, or the answer to a create that came through was lost."""
    until = time.monotonic() + 120
    while True:
        try:
            if accepted(cluster, item):
                return
        except RuntimeError as error:
            if "AlreadyExists" in str(error):
                return
            if time.monotonic() > until:
                raise
        time.sleep(1)


def _unfinished_after(cluster: Devcluster, space: str, seconds: float) -> list[str]:
    """DagJobs and pods that are not done when everything else is, or after so long."""
    until, left = time.monotonic() + seconds, [""]
    while left and time.monotonic() < until:
        time.sleep(5)
        jobs = cluster.get("dagjobs", "-n", space)["items"]
        left = [
            f"{job['metadata']['name']}: {job.get('status', {}).get('message', '')}"
            for job in jobs
            if job.get("status", {}).get("phase") != "Succeeded"
        ]
        if not left:
            pods = cluster.get("pods", "-n", space, "--field-selector=status.phase!=Succeeded")["items"]
            left = [f"{pod['metadata']['name']}: pod {pod['status']['phase']}" for pod in pods]
    return left


def wrong(results: dict[str, Any]) -> list[str]:
    """What must not have happened, and did."""
    lists = [name for name, value in results.items() if isinstance(value, list) and value]
    if results["longest time that a gang was bound in part, s"] > WHOLE_S:
        lists.append("longest time that a gang was bound in part, s")
    if results["changes that the watcher could not take in"]:
        lists.append("changes that the watcher could not take in")
    return lists


def page(results: dict[str, Any], minutes: float, seed: int) -> str:
    """The results as a page of docs/."""
    rows = []
    for name, value in results.items():
        if name != "said":
            shown = (
                f"{len(value)}" if isinstance(value, list) else f"{value:,.1f}" if isinstance(value, float) else value
            )
            rows.append(f"| {name} | {shown} |")
    command = f"`--minutes {minutes:g} --seed {seed}`, [soak.py](../tests/kubernetes/soak.py)"
    text = f"""\
# An hour of foreign load, with a kill each minute

Made by `make soak` ({command}): the overlay `production` (two replicas of
each part, mutual TLS) under `hdrf` on a real control plane with {NODES} fake nodes of {CPUS} CPU; {JOBS} DagJobs of
up to 2,000 tasks in four queues, some with gangs, beside plain pods, a batch Job, and pods of the default scheduler on
{SHARED} nodes of its own. Each minute one part is killed by SIGKILL: a replica of brain, kube-scheduler or
controllers, or the API server or etcd, which come back after at most {OUTAGE_S:g} s.

| | |
| --- | --- |
"""
    return text + "".join(f"{row}\n" for row in rows)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> int:
    """0 when nothing was lost or done twice, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="of load and kills (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of load and kills (default: 1)")
    parser.add_argument("--out", type=Path, help="a page with the results")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, a_devcluster(Path(folder)) as cluster:
        results = soak(cluster, asked.minutes, asked.seed)
    text = page(results, asked.minutes, asked.seed)
    sys.stdout.write(text)
    if asked.out is not None:
        asked.out.write_text(text)
    faults = wrong(results)
    for fault in faults:
        _say(f"{fault}: {results[fault]}")
    if results["said"]:
        _say(results["said"])
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
