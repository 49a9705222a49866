"""`kubectl rm-emulator status | why POD|JOB | queues | simulate`: what our parts say of a cluster, at a glance.

A plug-in of kubectl: kubectl reads the objects, with its user's kubeconfig and rights. Nothing is written to the
cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from rm_emulator.issues import InvalidInput
from rm_emulator.program import as_json, end
from schedulers.core.errors import nearest
from schedulers.objects.names import (
    BRAIN_LEASE,
    CONTROLLERS_LEASE,
    DAGJOB_LABEL,
    GATE,
    GROUP,
    NAMESPACE,
    PODS_REFUSED,
    PODS_UNPLACED,
    QUEUE_LABEL,
    SCHEDULER,
    WAITING_CONDITION,
)

_TIMEOUT_S: Final = 60
#: What is asked for by `why`, by the words before a slash.
_KINDS: Final = {"dj": "DagJob", "dagjob": "DagJob", "dagjobs": "DagJob", "po": "Pod", "pod": "Pod", "pods": "Pod"}
_PLURALS: Final = {"DagJob": f"dagjobs.{GROUP}", "Pod": "pods"}
#: Conditions of a DagJob that tell of trouble while they are true.
_TROUBLE: Final = (PODS_REFUSED, PODS_UNPLACED, "Failed")
_LEASES: Final = {"rm-brain": BRAIN_LEASE, "rm-controllers": CONTROLLERS_LEASE}

Object = Mapping[str, Any]


class Forbidden(InvalidInput):
    """The user may not read these objects."""


class Kubectl(NamedTuple):
    """One cluster, read by kubectl with the user's options."""

    options: tuple[str, ...] = ()

    def get(self, *words: str) -> list[dict[str, Any]]:
        """The objects that `kubectl get WORDS` finds. Raises InvalidInput with the reason when it cannot look."""
        try:
            done = subprocess.run(  # noqa: S603
                ["kubectl", *self.options, "get", *words, "--ignore-not-found", "-o", "json"],  # noqa: S607
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InvalidInput(f"the cluster does not answer within {_TIMEOUT_S} s") from None
        if done.returncode:
            raise _mistake(words[0], done.stderr)
        found: dict[str, Any] = json.loads(done.stdout or '{"items": []}')
        items: list[dict[str, Any]] = found.get("items", [found])
        return items

    def namespace(self) -> str:
        """The one that kubectl takes where none is named."""
        asked = ["config", "view", "--minify", "-o", "jsonpath={..namespace}"]
        done = subprocess.run(["kubectl", *self.options, *asked], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return done.stdout.strip() or "default"


def _mistake(what: str, said: str) -> InvalidInput:
    """The error for a failed `kubectl get`, in one line with the cause first. said: standard error of kubectl."""
    last = said.strip().splitlines()[-1] if said.strip() else "kubectl says nothing"
    if "doesn't have a resource type" in last:
        return InvalidInput(f"rm-emulator is not installed on this cluster: it knows no {what}")
    if "(Forbidden)" in last:
        why = last.partition("is forbidden: ")[2] or last
        return Forbidden(f"you may not read {what} (the roles view and edit of a namespace include rm-view): {why}")
    if "onnect" in last or "dial tcp" in last or "no such host" in last or "i/o timeout" in last:
        return InvalidInput(f"the cluster does not answer: {last}")
    return InvalidInput(f"kubectl get {what}: {last}")


# -- status -------------------------------------------------------------------------------------


def status(cluster: Kubectl, system: str) -> dict[str, Any]:
    """Who leads and who is ready, and DagJobs and tasks in numbers; a part that the user may not read is its reason."""
    return {
        "parts": {name: _or_reason(_part, cluster, system, name, lease) for name, lease in _LEASES.items()},
        "dagjobs": _or_reason(_phases, cluster),
        "queues": _or_reason(queues, cluster),
    }


def _or_reason(read: Callable[..., Any], *given: Any) -> Any:
    try:
        return read(*given)
    except Forbidden as error:
        return {"unknown": str(error)}


def _part(cluster: Kubectl, system: str, name: str, lease: str) -> dict[str, Any]:
    pods = cluster.get("pods", "-n", system, "-l", f"app={name}")
    (held,) = cluster.get("leases", lease, "-n", system) or [{}]
    holder = (held.get("spec", {}).get("holderIdentity") or "").rpartition("_")[0]
    ready = {pod["metadata"]["name"]: _condition(pod, "Ready").get("status") == "True" for pod in pods}
    return {"ready": sum(ready.values()), "replicas": len(pods), "leader": holder if ready.get(holder) else None}


def _phases(cluster: Kubectl) -> dict[str, int]:
    jobs = cluster.get(_PLURALS["DagJob"], "-A")
    phases = Counter(job.get("status", {}).get("phase", "Pending") for job in jobs)
    return {phase: phases[phase] for phase in ("Pending", "Running", "Succeeded", "Failed")}


def _status_text(found: Object) -> Iterator[str]:
    for name, part in found["parts"].items():
        if "unknown" in part:
            yield f"{name}: {part['unknown']}"
        else:
            yield f"{name}: {part['leader'] or 'nobody'} leads, {part['ready']} of {part['replicas']} ready"
    jobs = found["dagjobs"]
    numbers = ", ".join(f"{number} {phase}" for phase, number in jobs.items())
    yield f"DagJobs: {jobs.get('unknown', numbers)}"
    if "unknown" in found["queues"]:
        yield f"queues: {found['queues']['unknown']}"
        return
    tops = [queue for queue in found["queues"] if not queue["depth"]]
    sums = {name: sum(queue[name] for queue in tops) for name in ("pending", "running")}
    yield f"tasks: {sums['pending']} wait for room, {sums['running']} hold room, in {len(found['queues'])} queues"


# -- queues -------------------------------------------------------------------------------------


def queues(cluster: Kubectl) -> list[dict[str, Any]]:
    """All queues, parents before children, with the figures that brain wrote, and why a queue is not ready."""
    items = {item["metadata"]["name"]: item for item in cluster.get(f"queues.{GROUP}")}
    below: dict[str, list[str]] = {}
    for name, item in sorted(items.items()):
        parent = item.get("spec", {}).get("parent") or ""
        below.setdefault(parent if parent in items else "", []).append(name)
    placed: dict[str, int] = {}

    def place(name: str, depth: int) -> None:
        if name not in placed:
            placed[name] = depth
            for child in below.get(name, ()):
                place(child, depth + 1)

    for name in [*below.get("", ()), *items]:  # the latter: members of a circle
        place(name, 0)
    return [_queue(items[name], depth) for name, depth in placed.items()]


def _queue(item: Object, depth: int) -> dict[str, Any]:
    spec, books, ready = item.get("spec", {}), item.get("status", {}), _condition(item, "Ready")
    return {
        "name": item["metadata"]["name"],
        "depth": depth,
        "weight": spec.get("weight", 1),
        **{figure: books.get(figure, 0) for figure in ("jobs", "pending", "running")},
        "share": books.get("share", ""),
        "trouble": ready.get("message", "") if ready.get("status") == "False" else "",
    }


def _queues_text(found: Sequence[Object]) -> Iterator[str]:
    if not found:
        yield "no queues: all jobs are in the queue default"
        return
    columns = ("weight", "jobs", "pending", "running", "share", "trouble")
    rows = [("QUEUE", *(column.upper() for column in columns))]
    rows += [("  " * queue["depth"] + queue["name"], *(str(queue[column]) for column in columns)) for queue in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


# -- why ----------------------------------------------------------------------------------------


def why(cluster: Kubectl, asked: str, namespace: str) -> dict[str, Any]:
    """Why a DagJob or a pod waits, as its status says. asked: NAME, dagjob/NAME or pod/NAME. Raises InvalidInput."""
    before, slash, name = asked.rpartition("/")
    if slash and before.lower() not in _KINDS:
        raise InvalidInput(f"'{asked}': '{before}' is neither dagjob nor pod (expected NAME, dagjob/NAME or pod/NAME)")
    kinds = [_KINDS[before.lower()]] if slash else ["DagJob", "Pod"]
    for kind in kinds:
        for item in cluster.get(_PLURALS[kind], name, "-n", namespace) if name else ():
            return {"kind": kind, "namespace": namespace, "name": name} | _TELLERS[kind](item)
    there = [item["metadata"]["name"] for kind in kinds for item in cluster.get(_PLURALS[kind], "-n", namespace)]
    near = nearest(name, there)
    hint = f" (is '{near}' meant?)" if near else ""
    raise InvalidInput(f"there is no {' or '.join(kinds)} '{name}' in namespace '{namespace}'{hint}")


def _tell_dagjob(item: Object) -> dict[str, Any]:
    spec, status = item["spec"], item.get("status", {})
    counts = ("tasks", "waiting", "released", "running", "succeeded")
    return {
        "queue": spec.get("queue", "default"),
        "phase": status.get("phase", "Pending"),
        "reason": status.get("reason", ""),
        "message": status.get("message", ""),
        "estimateSeconds": status.get("estimateSeconds"),
        "promise": status.get("promise", {}).get("message", ""),
        "trouble": [
            f"{one['type']}: {one.get('message', '')}"
            for one in status.get("conditions", ())
            if one["type"] in _TROUBLE and one["status"] == "True"
        ],
        "stages": [
            {"name": stage["name"], **{count: stage.get(count, 0) for count in counts}}
            for stage in status.get("stages", ())
        ],
    }


def _tell_pod(item: Object) -> dict[str, Any]:
    spec, meta = item["spec"], item["metadata"]
    labels, waiting = meta.get("labels") or {}, _condition(item, WAITING_CONDITION)
    told = {
        "queue": labels.get(QUEUE_LABEL),
        "dagjob": labels.get(DAGJOB_LABEL),
        "phase": item.get("status", {}).get("phase", "Pending"),
        "gated": {"name": GATE} in spec.get("schedulingGates", ()),
        "node": spec.get("nodeName"),
    }
    return told | dict(zip(("reason", "message"), _pod_waits(item, told, waiting), strict=True))


def _pod_waits(item: Object, told: Object, waiting: Object) -> tuple[str, str]:
    scheduler = item["spec"].get("schedulerName", "")
    if told["node"]:
        return "", f"its node is {told['node']}"
    if scheduler != SCHEDULER:
        return "OtherScheduler", f"its scheduler is '{scheduler}', not '{SCHEDULER}': rm-emulator does not decide on it"
    if waiting.get("status") == "True":
        return waiting.get("reason", ""), waiting.get("message", "")
    if told["gated"]:
        return "NotReported", "it waits behind the gate, and brain has not said why yet (does one lead? see status)"
    bound = _condition(item, "PodScheduled")
    said = bound.get("message") or "it may start, and kube-scheduler has not bound it yet"
    return bound.get("reason", "Released"), said


_TELLERS: Final[dict[str, Callable[[Object], dict[str, Any]]]] = {"DagJob": _tell_dagjob, "Pod": _tell_pod}


def _why_text(found: Object) -> Iterator[str]:
    of = f" of DagJob {found['dagjob']}" if found.get("dagjob") else ""
    queue = f" in queue {found['queue']}" if found["queue"] else ""
    yield f"{found['kind']} {found['namespace']}/{found['name']}{of}{queue}: {found['phase']}"
    if found["message"]:
        yield f"  {found['reason']}: {found['message']}" if found["reason"] else f"  {found['message']}"
    if found.get("estimateSeconds") is not None:
        yield f"  its work is estimated at {found['estimateSeconds']:.0f} s"
    if found.get("promise"):
        yield f"  {found['promise']}"
    yield from (f"  {trouble}" for trouble in found.get("trouble", ()))
    for stage in found.get("stages", ()):
        counts = ", ".join(f"{stage[name]} {name}" for name in list(stage)[2:] if stage[name])
        yield f"  stage {stage['name']}: {stage['tasks']} tasks" + (f", {counts}" if counts else "")


# -- the command --------------------------------------------------------------------------------


def _condition(item: Object, kind: str) -> Object:
    conditions: Sequence[Object] = item.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--kubeconfig", metavar="FILE", help="as of kubectl")
    common.add_argument("--context", metavar="NAME", help="as of kubectl")
    common.add_argument("--json", action="store_true", help="one JSON document on standard output and nothing else")
    parser = argparse.ArgumentParser(prog="kubectl rm-emulator", description="What rm-emulator says of a cluster.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="status | why | queues | simulate")
    of_parts = commands.add_parser("status", parents=[common], help="who leads, who is ready, how much waits")
    of_parts.add_argument("--system", metavar="NAMESPACE", default=NAMESPACE, help=f"of the parts ({NAMESPACE})")
    of_one = commands.add_parser("why", parents=[common], help="why a DagJob or a pod waits")
    of_one.add_argument("name", metavar="POD|JOB", help="NAME, dagjob/NAME or pod/NAME")
    of_one.add_argument("-n", "--namespace", metavar="NAMESPACE", help="as of kubectl")
    commands.add_parser("queues", parents=[common], help="the tree of queues with their figures")
    commands.add_parser("simulate", add_help=False, help="when will jobs start and end? As rm-emulator simulate")
    return parser


def _simulate(words: Sequence[str]) -> NoReturn:
    """Run `rm-emulator simulate`, for the cluster of kubectl where the words name no other. Raises InvalidInput."""
    cluster: list[str] = []
    if not any(word.partition("=")[0] in ("--kubeconfig", "--from", "--help") for word in words):
        files = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        if len(named := [file for file in files.split(os.pathsep) if file]) > 1:
            raise InvalidInput(f"KUBECONFIG names {len(named)} files: name the file of the cluster by --kubeconfig")
        cluster = ["--kubeconfig", *named]
    command = [sys.executable, "-m", "rm_emulator", "simulate", *cluster, *words]
    sys.exit(subprocess.run(command, stdout=sys.stdout, check=False).returncode)  # noqa: S603


def _run(words: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["simulate"]:
        _simulate(words[1:])
    asked = _parser().parse_args(words)
    if shutil.which("kubectl") is None:
        raise InvalidInput("no program 'kubectl' on the PATH: install kubectl")
    named = (("--kubeconfig", asked.kubeconfig), ("--context", asked.context))
    cluster = Kubectl(tuple(word for option, value in named if value for word in (option, value)))
    found: Any
    match asked.command:
        case "status":
            found = status(cluster, asked.system)
            lines = _status_text(found)
        case "queues":
            found = queues(cluster)
            lines = _queues_text(found)
        case _:
            found = why(cluster, asked.name, asked.namespace or cluster.namespace())
            lines = _why_text(found)
    sys.stdout.write(as_json(found, indent=1) + "\n" if asked.json else "".join(f"{line}\n" for line in lines))


def main() -> NoReturn:
    """The console script `kubectl-rm_emulator`, which kubectl calls for `kubectl rm-emulator`."""
    end(_run)


if __name__ == "__main__":
    main()
