"""An hour of foreign load on the production overlay, with a kill each minute: is anything lost, or done twice?

`python -m tests.kubernetes.soak [--minutes 60] [--seed 1] [--out FILE]` runs DagJobs of four queues, plain pods, a
batch Job and pods of the default scheduler, on 100 fake nodes, kills a part of ours or of the control plane each
minute, tries a hostile object every few seconds, looks at every change of every pod, and asks all the while whether a
brain decides. It ends with 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.audits import RECOVERY_S, Audit, Presence, exceptions, watched
from tests.kubernetes.hostile import Hostile, drawn
from tests.kubernetes.installed import Installed, a_devcluster, dagjob, stage, submit

NODES, CPUS, SHARED = 100, 8, 4
QUEUES: Final = {"gold": {"weight": 4}, "silver": {"weight": 2}, "bronze": {"weight": 1, "max": {"cpu": "240"}}}
JOBS = 60
#: A gang may be bound piece by piece, and a kill may come in between: it has to be whole after so long.
WHOLE_S = 60.0
#: So long after the last submission everything is done.
END_S = 1800.0
#: Longest time that the API server or etcd is away, s.
OUTAGE_S = 25.0
#: Longest time in which no brain may decide, s.
ALONE_S = 20.0
#: Between two hostile objects, and until those that are there are deleted, s.
HOSTILE_S, CLEARED_S = 5.0, 60.0
TENANT = "mallory"


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

#: Parts of ours, or of the control plane, of which one is killed; the more often it stands here, the more likely.
PARTS = (
    *("brain", "brain", "brain by SIGTERM", "both brains", "kube-scheduler", "kube-scheduler"),
    *("controllers", "controllers by SIGTERM", "apiserver", "etcd"),
)


def kill(installed: Installed, presence: Presence, draw: random.Random) -> str:
    """Kill one part, drawn; returns which it was. The control plane's come back after at most OUTAGE_S."""
    part = draw.choice(PARTS)
    if part in ("apiserver", "etcd"):
        installed.cluster.kill(part)
        time.sleep(draw.uniform(0, OUTAGE_S))
        installed.cluster.start(part)
        return part
    number = signal.SIGTERM if part.endswith("SIGTERM") else signal.SIGKILL
    name = "brain" if part == "both brains" else part.partition(" ")[0]
    running = installed.controllers if name == "controllers" else installed.brain
    replicas = range(len(running.replicas))
    for index in replicas if part == "both brains" else [draw.choice(replicas)]:
        if name != "kube-scheduler":
            presence.killed(running.replicas[index].name)
        running.kill(name, index, number=number)
    return part


# -- what tenants try ---------------------------------------------------------------------------

#: How kubectl says that nobody answered.
_UNANSWERED = re.compile(r"nable to connect|onnection |ServiceUnavailable|TooManyRequests|etcdserver|EOF|imeout")


class Tenant:
    """Somebody who may write pods and DagJobs in a namespace of their own, and tries what is hostile.

    tried: how often the API server took something of theirs, of an administrator, or refused it.
    """

    def __init__(self, cluster: Devcluster, seed: int) -> None:
        self._cluster, self._draw = cluster, random.Random(seed)
        self._space, self._number = cluster.namespace("hostile"), 0
        self._nodes = [f"m{index}" for index in range(NODES - SHARED)]
        self.tried: Counter[str] = Counter()
        verbs = "--verb=create,get,list,patch,update,delete"
        resources = "--resource=pods,dagjobs.rm-emulator.io"
        cluster.kubectl("create", "role", TENANT, "-n", self._space, verbs, resources)
        cluster.kubectl("create", "rolebinding", TENANT, "-n", self._space, f"--role={TENANT}", f"--user={TENANT}")

    def act(self) -> None:
        """Try the next object, as the tenant and then, if it does no harm by right, as an administrator."""
        self._number += 1
        self.tried[self._try(drawn(self._draw, self._number, self._space, self._nodes))] += 1

    def _try(self, hostile: Hostile) -> str:
        for who, flags in (("taken", (f"--as={TENANT}",)), ("taken of an administrator", ())):
            if flags or hostile.as_admin:
                try:
                    self._cluster.kubectl(*flags, *hostile.arguments, input=hostile.text)
                except RuntimeError as error:
                    if _UNANSWERED.search(str(error)):
                        return "unanswered"
                else:
                    return who
        return "refused"

    def clear(self) -> None:
        """Delete what is there; what cannot be now is the next time."""
        with suppress(RuntimeError):
            self._cluster.kubectl("delete", "dagjobs,pods", "--all", "-n", self._space, "--wait=false")
            queues = [queue["metadata"]["name"] for queue in self._cluster.get("queues")["items"]]
            if mine := [name for name in queues if name.startswith("hostile-")]:
                self._cluster.kubectl("delete", "queues", *mine, "--wait=false")


# -- all of it ----------------------------------------------------------------------------------


class Course:
    """One soak: the load as it falls due, a kill each minute, a hostile object every few seconds."""

    def __init__(self, installed: Installed, presence: Presence, tenant: Tenant, seed: int) -> None:
        self._installed, self._presence, self._tenant = installed, presence, tenant
        self._draw = random.Random(seed)
        self.kills: Counter[str] = Counter()

    def run(self, objects: list[tuple[float, dict[str, Any]]], minutes: float, audit: Audit) -> None:
        """Until all objects are there, and the minutes are over."""
        begin = time.monotonic()
        end, next_kill, next_hostile, next_clear = begin + 60 * minutes, begin + 30, begin, begin + CLEARED_S
        while (now := time.monotonic()) < end or objects:
            if objects and begin + objects[0][0] <= now:
                _create(self._installed.cluster, objects.pop(0)[1])
            elif next_kill <= now < end:
                self.kills[kill(self._installed, self._presence, self._draw)] += 1
                next_kill += 60 if now < next_kill + 60 else 120
                _say(
                    f"{(now - begin) / 60:5.1f} min: {self.kills.total()} kills, {audit.succeeded} tasks done, "
                    f"{len(audit.again)} pods made again, {len(audit.over)} moments over-committed, "
                    f"{self._presence.gap_s:.0f} s without a brain, {len(self._presence.changes)} changes of leaders"
                )
            elif next_clear <= now:
                self._tenant.clear()
                next_clear = now + CLEARED_S
            elif next_hostile <= now < end:
                self._tenant.act()
                next_hostile = now + HOSTILE_S
            else:
                time.sleep(0.2)
        self._tenant.clear()


def soak(cluster: Devcluster, minutes: float, seed: int) -> dict[str, Any]:
    """One soak; what came of it, by name."""
    cluster.add_nodes(NODES - SHARED, prefix="m", cpu=str(CPUS), reserved=True)
    cluster.add_nodes(SHARED, prefix="shared", cpu=str(CPUS))
    _start_default_scheduler(cluster)
    space = cluster.namespace("soak")
    audit = Audit(space, CPUS)
    with ExitStack() as stack:
        installed = Installed(cluster, overlay="production", brain={"policy": {"kind": "hdrf"}})
        stack.callback(installed.stop)
        for name, spec in QUEUES.items():
            queue = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
            _create(cluster, queue)
        presence, tenant = Presence(installed), Tenant(cluster, seed)
        pods = stack.enter_context(watched(cluster, audit, presence))
        course, begin = Course(installed, presence, tenant, seed), time.monotonic()
        course.run(load(seed, minutes, space), minutes, audit)
        unfinished = _unfinished_after(cluster, space, END_S)
        took = time.monotonic() - begin
        time.sleep(2)  # the watch is a moment behind
        said = installed.said(*(name.split(":")[0] for name in unfinished)) if unfinished else ""
        mistakes = exceptions(installed)
    return {
        "minutes": took / 60,
        "tasks that succeeded": audit.succeeded,
        "pods that were made": audit.made,
        "kills": _counts(course.kills),
        "hostile objects": _counts(tenant.tried),
        "jobs that did not end": unfinished,
        "tasks that succeeded twice": audit.twice,
        "running tasks that were stopped": audit.stopped,
        "pods that were made again": audit.again,
        "moments at which a node was over-committed": audit.over,
        "longest time that a gang was bound in part, s": audit.partial_now(),
        "longest time that no brain decided, s": presence.gap_s,
        "changes of leaders of whom none was killed": presence.changes,
        "exceptions in the logs": mistakes,
        "changes that the watcher could not take in": pods.unheard,
        "facts replayed with identical decisions": installed.replay(cut=True),
        "said": said,
    }


def _counts(counted: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counted.items()))


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
            submit(cluster, item)
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
    limits = {
        "longest time that a gang was bound in part, s": WHOLE_S,
        "longest time that no brain decided, s": ALONE_S,
        "changes that the watcher could not take in": 0,
    }
    return lists + [name for name, most in limits.items() if results[name] > most]


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

Made by `make soak` ({command}). The overlay `production` (two replicas
of each part, mutual TLS) runs under `hdrf` on a real control plane with {NODES} fake nodes of {CPUS} CPU. The load:
{JOBS} DagJobs of up to 2,000 tasks in four queues, some with gangs; plain pods; a batch Job; and pods of the default
scheduler on {SHARED} nodes of its own.

- **Kills**: each minute one part dies, by SIGKILL or SIGTERM: a replica of brain, kube-scheduler or controllers, both
  brains at once, or the API server or etcd, which come back after at most {OUTAGE_S:g} s.
- **Hostile objects**: every {HOSTILE_S:g} s a tenant attacks ([list](../tests/kubernetes/hostile.py)): plans of
  gangs in annotations, unreadable quantities, numbers of 5,000 digits, pods that bypass queue and gate. An
  administrator tries again whatever was refused to the tenant, unless the administrator could rightly do harm with it.
- **Watcher**: a program looks at every change of every pod, and asks every half second, as a kubelet does, whether a
  brain is ready. The first {RECOVERY_S:g} s after the API server answers again do not count.

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
