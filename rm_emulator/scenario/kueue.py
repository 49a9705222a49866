"""The objects of a cluster that runs Kueue, or plain Jobs, as Queues and DagJobs.

A ClusterQueue is a queue under its Cohort, a Workload a DagJob with a gang per pod set, a Job without a Workload a
DagJob of a single stage. Whatever has no counterpart is counted in a note. Source: Kueue's API, v1beta1 and v1beta2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from rm_emulator.scenario.observed import JOBSET_LABELS, RunTimes, age_s, controller
from schedulers.core.errors import InvalidQuantity
from schedulers.core.resources import parse_quantity
from schedulers.objects.meta import to_ms
from schedulers.objects.names import (
    AGE_SECONDS,
    API_VERSION,
    DAGJOB_LABEL,
    DEFAULT_QUEUE,
    QUEUE_LABEL,
    RUN_SECONDS,
    SCHEDULER,
    STAGE_LABEL,
)

#: Kinds of Kueue that are read, and the names by which kubectl knows them.
KINDS: Final = {
    "ClusterQueue": "clusterqueues.kueue.x-k8s.io",
    "Cohort": "cohorts.kueue.x-k8s.io",
    "LocalQueue": "localqueues.kueue.x-k8s.io",
    "Workload": "workloads.kueue.x-k8s.io",
    "ResourceFlavor": "resourceflavors.kueue.x-k8s.io",
    "WorkloadPriorityClass": "workloadpriorityclasses.kueue.x-k8s.io",
    "PriorityClass": "priorityclasses.scheduling.k8s.io",
}
_VERSIONS: Final = ("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2")
_GROUP: Final = "kueue.x-k8s.io/"
#: Label (of Kueue, then of JobSet) of a pod: its pod set.
_PART_LABELS: Final = ("kueue.x-k8s.io/podset", JOBSET_LABELS[1])
_LEAST_WEIGHT: Final = 1e-6
#: Fields of a ClusterQueue without a counterpart, each with the value that says nothing.
_UNTOLD: Final = {
    "queueingStrategy": ("BestEffortFIFO",),
    "stopPolicy": ("None",),
    "flavorFungibility": ({}, {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}),
    "preemption": ({},),
    "admissionChecks": ([],),
    "admissionChecksStrategy": ({},),
    "admissionScope": ({},),
    "namespaceSelector": ({},),
    "concurrentAdmissionPolicy": ({},),
}
Amounts = dict[str, Fraction]
Object = Mapping[str, Any]


class Made(NamedTuple):
    """Result of `read`: our objects, notes, and ids of the pods that the objects stand for."""

    objects: list[dict[str, Any]]
    notes: list[str]
    pods: set[int]


def read(others: Mapping[str, Sequence[Object]], pods: Sequence[Object], times: RunTimes, now_ms: int) -> Made:
    """Objects of further kinds, and the pods of all kinds, as our objects. Unreadable objects are left out, noted."""
    return _Reader(others, pods, times, now_ms).read()


def task(name: str, namespace: str, labels: Mapping[str, str], node: str, age: float) -> dict[str, Any]:
    """A running task of a DagJob: a pod on its node, which has run for `age` seconds."""
    meta = {"name": name, "namespace": namespace, "labels": dict(labels), "annotations": {AGE_SECONDS: f"{age:.3f}"}}
    spec = {"nodeName": node, "schedulerName": SCHEDULER}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class _Reader:
    def __init__(
        self, others: Mapping[str, Sequence[Object]], pods: Sequence[Object], times: RunTimes, now_ms: int
    ) -> None:
        self._others, self._pods, self._times, self._now_ms = others, pods, times, now_ms
        self._notes: list[str] = []
        self._without: Counter[str] = Counter()  # things without a counterpart
        self._taken: set[int] = set()
        self._made: list[dict[str, Any]] = []
        self._flavors = {item["metadata"]["name"]: item.get("spec") or {} for item in self._all("ResourceFlavor")}
        jobs = (*self._all("Job"), *self._all("JobSet"))
        self._parents = {_key(item): key for item in jobs if (key := _owner_key(item)) is not None}
        self._owned: dict[tuple[str, str, str], list[Object]] = {}

    def read(self) -> Made:
        """See `read` of the module."""
        self._gather_pods()
        queues = self._all("ClusterQueue")
        self._made += _queues(queues, self._all("Cohort"), self._without)
        self._count_untold(queues)
        queue_of = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): (item.get("spec") or {}).get("clusterQueue", "")
            for item in self._all("LocalQueue")
        }
        done: set[tuple[str, str, str]] = set()
        for item in sorted(self._all("Workload"), key=_created):
            self._try(item, lambda item=item: self._workload(item, queue_of, done))
        for item in self._all("JobSet"):
            self._try(item, lambda item=item: self._jobset(item, done))
        for item in sorted(self._all("Job"), key=_created):
            self._try(item, lambda item=item: self._job(item, done))
        listed = [f"{what}: no counterpart, left out ({count})" for what, count in sorted(self._without.items())]
        return Made(self._made, self._notes + listed, self._taken)

    def _all(self, kind: str) -> list[Object]:
        found = []
        for item in self._others.get(kind, ()):
            version = str(item.get("apiVersion", ""))
            if version.startswith(_GROUP) and version not in _VERSIONS:
                self._without[f"{kind} of {version} (read: v1beta1, v1beta2)"] += 1
            elif (item.get("metadata") or {}).get("name"):
                found.append(item)
        return found

    def _try(self, item: Object, make: Any) -> None:
        try:
            make()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            meta = item["metadata"]
            who = f"{item.get('kind')} {meta.get('namespace')}/{meta['name']}"
            self._notes.append(f"{who} cannot be read and is left out ({type(error).__name__}: {error})")

    def _gather_pods(self) -> None:
        for pod in self._pods:
            try:
                key = _owner_key(pod)
                while key is not None and key in self._parents:
                    self._owned.setdefault(key, []).append(pod)
                    key = self._parents[key]
                if key is not None:
                    self._owned.setdefault(key, []).append(pod)
            except (AttributeError, KeyError, TypeError):
                continue  # noted by the reader of pods

    # -- what has no counterpart ------------------------------------------------------------------

    def _count_untold(self, queues: Iterable[Object]) -> None:
        for item in queues:
            spec = item.get("spec") or {}
            for name, nothing in _UNTOLD.items():
                if spec.get(name) is not None and spec[name] not in nothing:
                    self._without[f"{name} of ClusterQueues"] += 1
            if any(len(group.get("flavors") or ()) > 1 for group in spec.get("resourceGroups") or ()):
                self._without["quotas by flavor of ClusterQueues (their sums are taken)"] += 1
        for kind in ("WorkloadPriorityClass", "PriorityClass"):
            count = sum(not item["metadata"]["name"].startswith("system-") for item in self._all(kind))
            if count:
                self._without[f"{kind} objects (jobs have no priorities)"] += count
        if held := sum(
            (item.get("spec") or {}).get("stopPolicy", "None") != "None" for item in self._all("LocalQueue")
        ):
            self._without["stopPolicy of LocalQueues"] += held

    # -- jobs -------------------------------------------------------------------------------------

    def _workload(self, item: Object, queue_of: Mapping[tuple[str, str], str], done: set[tuple[str, str, str]]) -> None:
        spec, status, meta = item["spec"], item.get("status") or {}, item["metadata"]
        owner = _owner_key(item) or next(iter(_owner_keys(item)), None) or _key(item)
        done.add(owner)
        pods = self._pods_of(owner)
        conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        if conditions.get("Finished") == "True":
            return
        if spec.get("active") is False:
            self._without["Workloads that are not active"] += 1
            return
        admission = status.get("admission") or {}
        queue = admission.get("clusterQueue") or queue_of.get((meta["namespace"], spec.get("queueName", "")))
        if not queue:
            self._without["Workloads without a LocalQueue that is there"] += 1
            return
        if spec.get("priority"):
            self._without["priority of Workloads"] += 1
        flavors = {each["name"]: each.get("flavors") or {} for each in admission.get("podSetAssignments") or ()}
        running = [pod for pod in pods if _runs(pod)]
        if admission and not running:
            self._notes.append(f"Workload {meta['namespace']}/{meta['name']} is admitted and has no pods yet: it waits")
        stages = []
        for part in spec["podSets"]:
            if part.get("topologyRequest"):
                self._without["topologyRequest of pod sets"] += 1
            template = self._on_flavors(part["template"], set(flavors.get(part["name"], {}).values()))
            mine = [pod for pod in pods if _part(pod, spec["podSets"]) == part["name"]]
            stages.append((part["name"], int(part.get("count", 1)), True, template, mine))
        self._dagjob(meta, owner[2], queue, stages)

    def _jobset(self, item: Object, done: set[tuple[str, str, str]]) -> None:
        """Count what neither the Workload of a JobSet nor the Jobs of the set tell."""
        spec, status = item.get("spec") or {}, item.get("status") or {}
        if status.get("terminalState") or any(
            each.get("type") in ("Completed", "Failed") and each.get("status") == "True"
            for each in status.get("conditions") or ()
        ):
            return
        if _key(item) not in done:
            self._without["JobSets without a Workload (each of their Jobs stands alone)"] += 1
        ordered = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
        if ordered or any(part.get("dependsOn") for part in spec.get("replicatedJobs") or ()):
            self._without["the order in which a JobSet starts its Jobs"] += 1

    def _job(self, item: Object, done: set[tuple[str, str, str]]) -> None:
        """A Job that neither joins our queues nor has a Workload: a DagJob of one stage."""
        spec, status, meta, key = item["spec"], item.get("status") or {}, item["metadata"], _key(item)
        template = spec["template"]
        labels = {**(meta.get("labels") or {}), **((template.get("metadata") or {}).get("labels") or {})}
        ours = template["spec"].get("schedulerName") == SCHEDULER or QUEUE_LABEL in labels
        over = any(
            c.get("type") in ("Complete", "Failed") and c["status"] == "True" for c in status.get("conditions") or ()
        )
        if ours or over or key in done or self._parents.get(key) in done:
            return
        if spec.get("suspend"):
            self._without["suspended Jobs without a Workload"] += 1
            return
        tasks = int(spec.get("completions") or spec.get("parallelism") or 1)
        if int(spec.get("parallelism") or 1) < tasks:
            self._without["parallelism of Jobs below their completions"] += 1
        pods = self._pods_of(key)
        self._dagjob(meta, meta["name"], DEFAULT_QUEUE, [("main", tasks, False, template, pods)])

    def _pods_of(self, owner: tuple[str, str, str]) -> list[Object]:
        found = self._owned.get(owner, [])
        self._taken |= {id(pod) for pod in found}
        return found

    def _dagjob(
        self,
        meta: Object,
        name: str,
        queue: str,
        parts: Iterable[tuple[str, int, bool, Object, Sequence[Object]]],
    ) -> None:
        space, created = meta["namespace"], to_ms(meta.get("creationTimestamp"))
        age = 0.0 if created is None else max(0, self._now_ms - created) / 1000
        stages, done, tasks = [], [], list[dict[str, Any]]()
        for part, count, gang, template, mine in parts:
            pod = template["spec"]
            told = {key: pod[key] for key in ("nodeSelector", "affinity", "tolerations", "overhead") if pod.get(key)}
            for key in ("containers", "initContainers"):
                if pod.get(key):
                    wanted = ("name", "resources", "restartPolicy")
                    told[key] = [{each: c[each] for each in wanted if c.get(each)} for c in pod[key]]
            annotations = self._annotations(space, name, part, template, mine)
            stages.append(
                {"name": part, "tasks": count, "template": {"metadata": {"annotations": annotations}, "spec": told}}
                | ({"gang": True} if gang and count > 1 else {})
            )
            ended = sum((each.get("status") or {}).get("phase") == "Succeeded" for each in mine)
            done.append({"name": part, "succeeded": min(ended, count)})
            labels = {DAGJOB_LABEL: name, STAGE_LABEL: part}
            tasks += [
                task(
                    each["metadata"]["name"],
                    space,
                    labels,
                    each["spec"]["nodeName"],
                    age_s(each, self._now_ms, self._notes),
                )
                for each in mine
                if _runs(each)
            ]
        metadata = {"name": name, "namespace": space, "annotations": {AGE_SECONDS: f"{age:.3f}"}}
        metadata |= {"creationTimestamp": meta["creationTimestamp"]} if created is not None else {}
        spec = {"queue": queue, "stages": stages}
        job = {"apiVersion": API_VERSION, "kind": "DagJob", "metadata": metadata, "spec": spec}
        self._made += [job | {"status": {"stages": done}}, *tasks]

    def _annotations(
        self, space: str, name: str, part: str, template: Object, pods: Sequence[Object]
    ) -> dict[str, str]:
        """The run time of a pod set's tasks, where anything tells one."""
        said = ((template.get("metadata") or {}).get("annotations") or {}).get(RUN_SECONDS)
        if said is not None:
            return {RUN_SECONDS: str(said)}
        # Pods of a JobSet are known by the set and the part, all others by their controllers.
        owners = dict.fromkeys([(name, part), (name, ""), *((controller(pod).get("name", name), "") for pod in pods)])
        for owner, of in owners:
            if (known := self._times.of(space, owner, of)) is not None:
                self._notes.append(f"{space}/{name} stage {part}: run time {known[0]} s from {known[1]}")
                return {RUN_SECONDS: known[0]}
        self._notes.append(
            f"{space}/{name} stage {part}: nothing says how long a task runs; add the annotation {RUN_SECONDS}"
        )
        return {}

    def _on_flavors(self, template: Object, names: set[str]) -> Object:
        """A pod template with node labels and tolerations of its assigned flavors."""
        pod = dict(template["spec"])
        for name in sorted(names):
            flavor = self._flavors.get(name, {})
            pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **(flavor.get("nodeLabels") or {})}
            pod["tolerations"] = [*(pod.get("tolerations") or ()), *(flavor.get("tolerations") or ())]
        return {**template, "spec": pod}


# -- queues -----------------------------------------------------------------------------------------


class _Quotas(NamedTuple):
    """Of a ClusterQueue or Cohort; a resource that is missing in a limit has no limit."""

    nominal: Amounts
    borrowing: Amounts
    lending: Amounts


def _quotas(spec: Object) -> _Quotas:
    """Sums over flavors; a limit counts where all flavors of a resource have the limit. Raises InvalidQuantity."""
    entries: dict[str, list[Object]] = {}
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for each in flavor.get("resources") or ():
                entries.setdefault(each["name"], []).append(each)

    def total(key: str) -> Amounts:
        known: dict[str, list[Any]] = {name: [each.get(key) for each in all_] for name, all_ in entries.items()}
        return {
            name: sum((parse_quantity(each) for each in told), Fraction(0))
            for name, told in known.items()
            if all(each is not None for each in told)
        }

    return _Quotas(total("nominalQuota"), total("borrowingLimit"), total("lendingLimit"))


def _queues(queues: Sequence[Object], cohorts: Sequence[Object], without: Counter[str]) -> list[dict[str, Any]]:
    """Queues of ClusterQueues under queues of Cohorts; `max` is nominal quota and whatever may be borrowed."""
    specs: dict[tuple[str, str], Object] = {}
    for kind, items in (("ClusterQueue", queues), ("Cohort", cohorts)):
        specs |= {(kind, item["metadata"]["name"]): item.get("spec") or {} for item in items}
    parents = {key: _cohort(key, spec) for key, spec in specs.items()}
    # A Cohort needs no object: the name in a ClusterQueue is enough.
    for name in [name for name in parents.values() if name]:
        specs.setdefault(("Cohort", name), {})
        parents.setdefault(("Cohort", name), "")
    quotas: dict[tuple[str, str], _Quotas] = {}
    for key, spec in specs.items():
        try:
            quotas[key] = _quotas(spec)
        except (InvalidQuantity, AttributeError, KeyError, TypeError, ValueError):
            without[f"quotas of {key[0]} {key[1]}, which cannot be read"] += 1
            quotas[key] = _Quotas({}, {}, {})
    tree = _Tree(parents, quotas)
    without["lendingLimit of several ClusterQueues at once (each alone is kept)"] += sum(
        bool(quota.lending) for quota in quotas.values()
    )
    made = []
    for key, spec in specs.items():
        if tree.is_circular(key):
            without["Cohorts in a circle, with their ClusterQueues"] += 1
            continue
        written: dict[str, Any] = {"weight": _weight(spec)}
        written |= {"parent": tree.name(("Cohort", parents[key]))} if parents[key] else {}
        guaranteed, most = quotas[key].nominal if key[0] == "ClusterQueue" else tree.total(key), tree.most(key)
        written |= {"guaranteed": _shown(guaranteed)} if guaranteed else {}
        written |= {"max": _shown(most)} if most else {}
        meta = {"name": tree.name(key)}
        made.append({"apiVersion": API_VERSION, "kind": "Queue", "metadata": meta, "spec": written})
    without += Counter()  # without entries of 0
    return made


class _Tree:
    """Cohorts and ClusterQueues, by kind and name."""

    def __init__(self, parents: Mapping[tuple[str, str], str], quotas: Mapping[tuple[str, str], _Quotas]) -> None:
        self._parents, self._quotas = parents, quotas
        self._children: dict[str, list[tuple[str, str]]] = {}
        for key, parent in parents.items():
            self._children.setdefault(parent, []).append(key)

    def name(self, key: tuple[str, str]) -> str:
        """Name of the queue; a Cohort with the name of a ClusterQueue gets an ending."""
        kind, name = key
        return f"{name}-cohort" if kind == "Cohort" and ("ClusterQueue", name) in self._parents else name

    def is_circular(self, key: tuple[str, str]) -> bool:
        """Whether the way upward does not end."""
        seen = set()
        while key not in seen:
            seen.add(key)
            if not self._parents[key]:
                return False
            key = ("Cohort", self._parents[key])
        return True

    def _below(self, key: tuple[str, str]) -> list[tuple[str, str]]:
        return self._children.get(key[1], []) if key[0] == "Cohort" else []

    def total(self, key: tuple[str, str]) -> Amounts:
        """Nominal quota of a node and of all below."""
        return _sum(self._quotas[key].nominal, *(self.total(child) for child in self._below(key)))

    def _lent(self, key: tuple[str, str]) -> Amounts:
        """The most that a node lends to its parent."""
        offered = _sum(self._quotas[key].nominal, *(self._lent(child) for child in self._below(key)))
        limits = self._quotas[key].lending
        return {name: min(amount, limits.get(name, amount)) for name, amount in offered.items()}

    def most(self, key: tuple[str, str]) -> Amounts:
        """The most that a node and all below may use: their quota, and what the parent and its others lend."""
        own, parent = self.total(key), self._parents[key]
        if not parent:
            return own
        above = ("Cohort", parent)
        others = (self._lent(child) for child in self._children[parent] if child != key)
        up, held = self.most(above), self.total(above)
        beyond = {name: amount - held.get(name, Fraction(0)) for name, amount in up.items()}
        free = _sum(self._quotas[above].nominal, beyond, *others)
        limits = self._quotas[key].borrowing
        # Of resources without quota here nothing can be borrowed by a ClusterQueue.
        names = own if key[0] == "ClusterQueue" else {**free, **own}
        nothing = Fraction(0)
        return {
            name: own.get(name, nothing) + min(free.get(name, nothing), limits.get(name, free.get(name, nothing)))
            for name in names
        }


def _sum(*amounts: Amounts) -> Amounts:
    names = dict.fromkeys(name for each in amounts for name in each)
    return {name: sum((each.get(name, Fraction(0)) for each in amounts), Fraction(0)) for name in names}


def _shown(amounts: Amounts) -> dict[str, str]:
    """Quantities, as whole numbers or in thousandths."""
    whole = {name: amount.denominator == 1 for name, amount in amounts.items()}
    return {name: str(amount) if whole[name] else f"{math.ceil(1000 * amount)}m" for name, amount in amounts.items()}


def _cohort(key: tuple[str, str], spec: Object) -> str:
    """The Cohort above: v1beta2 calls a ClusterQueue's `cohortName`, v1beta1 `cohort`; of a Cohort `parentName`."""
    told = (spec.get("cohortName") or spec.get("cohort")) if key[0] == "ClusterQueue" else spec.get("parentName")
    return str(told or "")


def _weight(spec: Object) -> float:
    try:
        return max(_LEAST_WEIGHT, float(parse_quantity((spec.get("fairSharing") or {}).get("weight", 1))))
    except (InvalidQuantity, AttributeError, TypeError, ValueError):
        return 1.0


# -- owners and pods --------------------------------------------------------------------------------


def _key(item: Object) -> tuple[str, str, str]:
    meta = item["metadata"]
    return str(meta.get("namespace", "")), str(item.get("kind")), str(meta["name"])


def _owner_key(item: Object) -> tuple[str, str, str] | None:
    owner = controller(item)
    return (str(item["metadata"].get("namespace", "")), owner["kind"], owner["name"]) if owner else None


def _owner_keys(item: Object) -> list[tuple[str, str, str]]:
    """Owners of any kind: a Workload of a group of pods has no controller."""
    space = str(item["metadata"].get("namespace", ""))
    return [(space, owner["kind"], owner["name"]) for owner in item["metadata"].get("ownerReferences") or ()]


def _created(item: Object) -> str:
    return str(item["metadata"].get("creationTimestamp") or "")


def _runs(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return bool(pod["spec"].get("nodeName")) and phase not in ("Succeeded", "Failed")


def _part(pod: Object, parts: Sequence[Object]) -> str:
    """Name of a pod's pod set; of the first where no label names one."""
    labels = pod["metadata"].get("labels") or {}
    names = [str(part["name"]) for part in parts]
    return next((str(labels[label]) for label in _PART_LABELS if labels.get(label) in names), names[0])
