"""Objects and patches as tenants write them by mistake or in malice, each drawn from a seed.

A `Hostile` is a command of kubectl that a tenant tries, its text as it goes over the wire: numbers that no JSON
library of ours would write are in it as numbers.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import yaml

from schedulers.objects import names
from tests.kubernetes.installed import MANIFESTS, dagjob, stage

#: Stand for numbers in the text that is sent: of 5,000 digits, and with an exponent that no float has.
_DIGITS, _EXPONENT = "@digits@", "@exponent@"
LONG: Final = "9" * 5000
JUNK: Final[tuple[Any, ...]] = (
    *(None, True, "", "x", " ", "\u0000", "𐀀\u202e", "a" * 64, "-1", "NaN", "1e400", "0x10", "12 GB", "../..", LONG),
    *(-1, 0, 0.5, 2**63, _DIGITS, _EXPONENT),
    *([], {}, ["x"], [None], {"x": "y"}, {"": 0}, [[[[]]]], [{"key": "x", "operator": "Odd"}]),
)
QUANTITIES: Final = (*JUNK, "1e-400", "-5", "1.2.3", "5kib", "1E", "1e3", "0.0000001", "100u", "9223372036854775808Ei")
PLANS: Final = (
    *("", "null", "[]", "0", "{", '{"a": 1}', '{"a": {"abc": "n0"}}', '{"map": {"0": 5}}', '{"map": {"-1": "n0"}}'),
    *('{"map": {"0": "nowhere"}}', f'{{"map": {{"{LONG}": "m0"}}}}', '{"map": {"0": "m0", "1": "m0"}}', "[" * 2000),
)
#: Fields that stay, so that the object arrives where it is to, and is found again.
_FIXED: Final = (("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"))
_RUN_S: Final = 20


class Hostile(NamedTuple):
    """A command of kubectl. text: its standard input. as_admin: whether an administrator may do it where it is refused.

    What would do harm by right, a pod put on a node past every scheduler, only a tenant tries.
    """

    arguments: tuple[str, ...]
    text: str
    as_admin: bool = True


def drawn(draw: random.Random, number: int, space: str, nodes: list[str]) -> Hostile:
    """The next one; its objects are called hostile-NUMBER, and are in `space` if they are in a namespace."""
    kinds: list[Callable[[random.Random, str, str, list[str]], Hostile]]
    kinds = [_planned, _patched, _unreadable, _queue, _labelled, _placed, _mutated, _mutated, _of_schema]
    return draw.choice(kinds)(draw, f"hostile-{number}", space, nodes)


def _create(item: dict[str, Any], *, as_admin: bool = True) -> Hostile:
    kind, meta = item["kind"], item["metadata"]
    paths = {
        "Pod": f"/api/v1/namespaces/{meta.get('namespace')}/pods",
        "DagJob": f"/apis/{names.API_VERSION}/namespaces/{meta.get('namespace')}/dagjobs",
        "Queue": f"/apis/{names.API_VERSION}/queues",
    }
    return Hostile(("create", "--raw", paths[kind], "-f", "-"), _written(item), as_admin)


def _written(item: Any) -> str:
    text = json.dumps(item)
    return text.replace(f'"{_DIGITS}"', LONG).replace(f'"{_EXPONENT}"', "1e400")


def _job(draw: random.Random, name: str, space: str) -> dict[str, Any]:
    gang = draw.random() < 0.5
    return dagjob(name, space, [stage("map", draw.randint(1, 4), _RUN_S, cpu="1", gang=gang)], retries=1)


def _pod(name: str, space: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": space,
            "labels": {names.QUEUE_LABEL: names.DEFAULT_QUEUE},
            "annotations": {names.RUN_SECONDS: str(_RUN_S)},
        },
        "spec": {"schedulerName": names.SCHEDULER, "restartPolicy": "Never", "containers": [container]},
    }


def _planned(draw: random.Random, name: str, space: str, nodes: list[str]) -> Hostile:
    """A DagJob that comes with a plan of its gangs."""
    item = _job(draw, name, space)
    item["metadata"]["annotations"] = {names.GANG_PLAN: draw.choice(PLANS)}
    return _create(item)


def _patched(draw: random.Random, name: str, space: str, nodes: list[str]) -> Hostile:
    """All DagJobs of the namespace are given a plan of their gangs, or another annotation or label of ours."""
    key = draw.choice([names.GANG_PLAN, names.GANG_PLAN, names.RECURRING_LABEL, names.USER_LABEL, names.RESERVED_NODE])
    return Hostile(("annotate", "dagjobs", "--all", "--overwrite", "-n", space, f"{key}={draw.choice(PLANS)}"), "")


def _unreadable(draw: random.Random, name: str, space: str, nodes: list[str]) -> Hostile:
    """A DagJob whose template, hints or deadline cannot be read."""
    item = _job(draw, name, space)
    (first,) = item["spec"]["stages"]
    spec, junk = first["template"]["spec"], draw.choice(JUNK)
    requests = spec["containers"][0]["resources"]["requests"]
    kind = draw.randrange(6)
    if kind < 2:
        requests[draw.choice(["cpu", "memory", "nvidia.com/gpu", "x"])] = draw.choice(QUANTITIES)
    elif kind == 2:
        spec[draw.choice(["tolerations", "affinity", "nodeSelector", "containers", "overhead", "volumes"])] = junk
    elif kind == 3:
        first["template"][draw.choice(["metadata", "spec"])] = junk
    elif kind == 4:
        first["hints"] = {draw.choice(["durationSeconds", "spread", "data"]): junk}
    else:
        item["spec"][draw.choice(["deadline", "wishes", "user", "retries", "ttlSecondsAfterFinished"])] = junk
    return _create(item)


def _queue(draw: random.Random, name: str, space: str, nodes: list[str]) -> Hostile:
    """A Queue with wild limits, or in a circle."""
    limit = draw.choice([draw.choice(QUANTITIES), {"cpu": draw.choice(QUANTITIES)}, {"x": "1"}, "101%", f"{LONG}%"])
    fields = {
        "max": limit,
        "guaranteed": limit,
        "perUser": {"limit": limit, "maxRunning": draw.choice(JUNK)},
        "weight": draw.choice([0, 1e-300, 1e6, _EXPONENT, -1, "1"]),
        "parent": draw.choice([name, "nowhere", "hostile-0", "x" * 64, LONG, "../.."]),
        "maxRunning": draw.choice(JUNK),
    }
    spec = {key: fields[key] for key in draw.sample(sorted(fields), draw.randint(1, 3))}
    return _create({"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec})


def _labelled(draw: random.Random, name: str, space: str, nodes: list[str]) -> Hostile:
    """A pod that takes the labels and annotations of ours for its own."""
    item = _pod(name, space)
    labels = [names.QUEUE_LABEL, names.DAGJOB_LABEL, names.STAGE_LABEL, names.INDEX_LABEL, names.ATTEMPT_LABEL]
    for label in draw.sample([*labels, names.USER_LABEL, names.RECURRING_LABEL], 2):
        item["metadata"]["labels"][label] = draw.choice(["nowhere", "-1", "9" * 63, "x", "", "gold", "hostile-0"])
    for note in draw.sample([names.START_WITHIN, names.PREEMPTIBLE, names.GANG_PLAN, names.RESERVED_NODE], 2):
        item["metadata"]["annotations"][note] = draw.choice(["", "x", "-1", "NaN", "1e999", LONG, "m0", *PLANS])
    owner = {"apiVersion": names.API_VERSION, "kind": "DagJob", "name": "x", "uid": "x", "controller": True}
    if draw.random() < 0.3:
        item["metadata"]["ownerReferences"] = [owner]
    return _create(item)


def _placed(draw: random.Random, name: str, space: str, nodes: list[str]) -> Hostile:
    """A pod on a reserved node, past queue and gate."""
    item = _pod(name, space)
    item["spec"]["nodeName"] = draw.choice(nodes)
    item["spec"]["schedulerName"] = draw.choice([names.SCHEDULER, "default-scheduler", "x"])
    item["spec"]["tolerations"] = [{"operator": "Exists"}]
    if draw.random() < 0.5:
        del item["metadata"]["labels"]
    return _create(item, as_admin=False)


def _mutated(draw: random.Random, name: str, space: str, nodes: list[str]) -> Hostile:
    """A sound object of which one to three fields, wherever, are something else."""
    item: dict[str, Any] = draw.choice(
        [
            _job(draw, name, space),
            _pod(name, space),
            _rich_pod(name, space),
            {
                "apiVersion": names.API_VERSION,
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"weight": 1, "max": {"cpu": "8"}, "perUser": {"limit": {"cpu": 1}, "maxRunning": 2}},
            },
        ]
    )
    for _ in range(draw.randint(1, 3)):
        holder, key = draw.choice(list(_places(item)))
        holder[key] = copy.deepcopy(draw.choice(QUANTITIES))
    return _create(item)


def _rich_pod(name: str, space: str) -> dict[str, Any]:
    """A pod with all that scheduling reads of any."""
    item = _pod(name, space)
    expression = {"key": "x", "operator": "NotIn", "values": ["y"]}
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["nowhere"]}
    term = {"matchExpressions": [expression], "matchFields": [field]}
    selector = {"labelSelector": {"matchLabels": {"x": "y"}, "matchExpressions": [expression]}, "topologyKey": "zone"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (container,) = item["spec"]["containers"]
    item["spec"] |= {
        "affinity": {
            "nodeAffinity": {required: {"nodeSelectorTerms": [term]}},
            "podAffinity": {required: [selector]},
            "podAntiAffinity": {required: [selector]},
        },
        "tolerations": [{"key": "x", "operator": "Equal", "value": "y", "effect": "NoSchedule"}],
        "nodeSelector": {"x": "y"},
        "schedulingGates": [{"name": names.GATE}],
        "initContainers": [{**container, "name": "i", "restartPolicy": "Always"}],
        "overhead": {"cpu": "10m"},
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
        "priority": 0,
        "priorityClassName": "x",
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "topologySpreadConstraints": [{**selector, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "resourceClaims": [{"name": "r", "resourceClaimName": "c"}],
    }
    return item


def _of_schema(draw: random.Random, name: str, space: str, nodes: list[str]) -> Hostile:
    """A sound object in which one field that its schema knows, whether it is there or not, is something else."""
    item: dict[str, Any] = _job(draw, name, space)
    if draw.random() < 0.3:
        item = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    *path, last = draw.choice(_known(item["kind"]))
    holder: Any = item
    for key, then in pairwise([*path, last]):
        if isinstance(holder, dict):
            holder = holder.setdefault(key, [] if then == 0 else {})
        else:
            if not holder:
                holder.append([] if then == 0 else {})
            holder = holder[0]
    junk = copy.deepcopy(draw.choice(QUANTITIES))
    if isinstance(holder, list):
        holder[:] = [junk]
    else:
        holder[last] = junk
    return _create(item)


@cache
def _known(kind: str) -> list[tuple[Any, ...]]:
    """Paths of all fields that the schema of a kind knows, 0 for the first of a list, but those that stay."""
    text = (MANIFESTS / "crds" / f"{kind.lower()}.yaml").read_text(encoding="utf-8")
    schema = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return [path for path in _paths(schema) if path and path not in _FIXED]


def _paths(schema: dict[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for name, inner in schema.get("properties", {}).items():
        yield from _paths(inner, (*path, name))
    if "items" in schema:
        yield from _paths(schema["items"], (*path, 0))
    if isinstance(more := schema.get("additionalProperties"), dict):
        yield from _paths(more, (*path, "x"))


def _places(item: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """(holder, key) of each field, but of those by which the object is found again."""
    fields = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    for key, value in fields:
        if (*path, key) not in _FIXED:
            yield item, key
        yield from _places(value, (*path, key))
