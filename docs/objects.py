"""The reference page of the Kubernetes objects: fields from the CRDs, names from the constants of the code.

A field's meaning is its `description` in `manifests/crds`, or, where the schema has none, its entry in `FIELDS`.
"""

from __future__ import annotations

import ast
import html
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from schedulers.objects import names

ROOT: Final = Path(__file__).resolve().parents[1]
CRDS: Final = ROOT / "manifests" / "crds"

#: Meanings of fields that a CRD may not describe.
FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    kind: {"metadata": "Kubernetes' object metadata; only the name is restricted."} for kind in ("Queue", "DagJob")
}


class Name(NamedTuple):
    """A name that Kubernetes objects carry: its kind (label, annotation, ...), its carriers, and its meaning."""

    kind: str
    on: str
    meaning: str


#: By constant of `schedulers.objects.names`.
NAMES: Final[Mapping[str, Name]] = {
    "SCHEDULER": Name("scheduler name", "pod", "`spec.schedulerName` of pods that join a queue."),
    "GATE": Name("scheduling gate", "pod", "Holds the pod back; the brain removes the gate to start the pod."),
    "QUEUE_LABEL": Name("label", "pod, pod template", "Queue of the pod; controllers set it on pods of DagJobs."),
    "DAGJOB_LABEL": Name("label", "pod", "DagJob of the pod; set by the controllers alone."),
    "STAGE_LABEL": Name("label", "pod", "Stage of the pod; set by the controllers alone."),
    "INDEX_LABEL": Name("label", "pod", "Index of the task in its stage, from 0; set by the controllers alone."),
    "ATTEMPT_LABEL": Name("label", "pod", "Attempt at the task, from 0; set by the controllers alone."),
    "RECURRING_LABEL": Name(
        "label", "DagJob, pod", "Name that links runs in the history; by default the object's name."
    ),
    "USER_LABEL": Name(
        "label", "pod, pod template", "User on whose behalf a plain pod runs; a DagJob has `spec.user`."
    ),
    "RESERVED_TAINT": Name(
        "taint", "node", "Keeps all other pods off; pods that join tolerate it, whatever its value."
    ),
    "SPEED_LABEL": Name("label", "node", "Speed of the node: tasks take half as long at 2. By default 1."),
    "TYPE_LABEL": Name("label", "node", "Instance type, set by clouds; `device` of a wish."),
    "ZONE_LABEL": Name("label", "node", "Zone, set by clouds; `rack` of a wish."),
    "RUN_SECONDS": Name("annotation", "pod template", "True run time for the emulator and fake kubelets alone."),
    "AGE_SECONDS": Name("annotation", "DagJob, pod", "Age in the file of a snapshot, as of its time, s."),
    "START_WITHIN": Name("annotation", "pod template of a Deployment", "Seconds within which each pod should run."),
    "PREEMPTIBLE": Name("annotation", "pod template of a Deployment", '`"false"`: no pod may be stopped for others.'),
    "EXIT_CODE": Name("annotation", "pod", "Exit code of the container on fake kubelets; by default 0."),
    "GANG_PLAN": Name("annotation", "DagJob", "Nodes of gangs that are being released, as JSON; written by the brain."),
    "WANTS_GATE": Name("annotation", "pod", '`"false"`: the pod joins without the scheduling gate.'),
    "RESERVED_NODE": Name("annotation", "pod", "Node that is reserved for a pod without gate; written by the brain."),
    "LEADER_LABEL": Name("label", "pod of a brain", '`"true"` on the pod of the brain that leads; set by that brain.'),
    "BRAIN_LEASE": Name("lease", "namespace of rm-emulator", "Leader of the brain's replicas."),
    "CONTROLLERS_LEASE": Name("lease", "namespace of rm-emulator", "Leader of the controllers' replicas."),
}
#: Names that stand only in the manifests.
IN_MANIFESTS: Final[Mapping[str, Name]] = {
    "rm-emulator.io/metrics": Name("label", "namespace", '`"true"`: its pods may read the metrics of our parts.'),
    "rm-emulator.io/settings": Name("annotation", "pod of our parts", "Hash of the settings; a change restarts them."),
    "rm-emulator.io/names-node": Name("label", "pod", "Set by admission on pods that name their node."),
}
#: Constants that are not names carried by objects: parts of other constants, and a default.
NOT_CARRIED: Final = {"GROUP", "VERSION", "API_VERSION", "DEFAULT_QUEUE", "NAMESPACE"}
#: By type of the condition: carriers, writer, and meaning.
CONDITIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    names.WAITING_CONDITION: (
        "pod",
        "brain",
        "The pod waits, for the reason given ([reasons](reasons.md)). `False` with reason `Released` or `Ended` after "
        "the wait. A pod that starts at once has no such condition.",
    ),
    "QueueKnown": ("DagJob", "controllers", "The queue of the job exists: reason `Found` or `NotFound`."),
    "DeadlineMissed": (
        "DagJob",
        "controllers",
        "The deadline has passed before the end of the job; nothing is stopped.",
    ),
    names.PODS_REFUSED: (
        "DagJob",
        "controllers",
        "The API server refuses pods of the job, with its own reason and message; `False` once it accepts them.",
    ),
    names.PODS_UNPLACED: (
        "DagJob",
        "controllers",
        "Released pods have not started, in the words of kube-scheduler or kubelet; `False` once all are placed.",
    ),
    "Complete": ("DagJob", "controllers", "All tasks have succeeded."),
    "Failed": (
        "DagJob",
        "controllers",
        "The job has ended without success: `TaskFailed` or the reason why it cannot run.",
    ),
    "Ready": (
        "Queue",
        "controllers",
        "The limits of the queue are readable and do not contradict each other, and its ancestors exist (reasons "
        "`InTree`, `LimitUnreadable`, `LimitsContradict`, `ParentMissing`, `Cycle`).",
    ),
}


class Field(NamedTuple):
    """A field of a custom resource. path: such as `spec.stages[].name`."""

    path: str
    type: str
    required: bool
    default: str
    meaning: str


def resources() -> dict[str, Mapping[str, Any]]:
    """The CRDs by kind, Queue first."""
    found = {}
    for path in sorted(CRDS.glob("*.yaml"), reverse=True):
        crd = yaml.safe_load(path.read_text(encoding="utf-8"))
        if crd["kind"] == "CustomResourceDefinition":
            found[crd["spec"]["names"]["kind"]] = crd
    return found


def fields(kind: str) -> list[Field]:
    """All fields of a kind, a parent before its children."""
    return list(_fields(_schema(kind), "", FIELDS.get(kind, {})))


def _schema(kind: str) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = resources()[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _fields(schema: Mapping[str, Any], above: str, texts: Mapping[str, str]) -> Iterator[Field]:
    for name, field in schema.get("properties", {}).items():
        path = f"{above}{name}"
        default = json.dumps(field["default"]) if "default" in field else ""
        meaning = field.get("description") or texts.get(path, "")
        yield Field(path, _type(field), name in schema.get("required", ()), default, meaning)
        yield from _fields(field, f"{path}.", texts)
        yield from _fields(field.get("items", {}), f"{path}[].", texts)


def _type(schema: Mapping[str, Any]) -> str:
    """The type in words, with its limits."""
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "type" not in schema:
        return "mapping of resources to quantities, or a share" if "additionalProperties" in schema else "quantity"
    if schema["type"] == "array":
        most = f", at most {schema['maxItems']}" if "maxItems" in schema else ""
        return f"list of {_type(schema['items'])}{most}"
    if schema["type"] == "object":
        values = schema.get("additionalProperties")
        return f"mapping of names to {_type(values)}" if values else "object"
    if schema["type"] == "string":
        most = f", at most {schema['maxLength']} characters" if "maxLength" in schema else ""
        return "time (RFC 3339)" if schema.get("format") == "date-time" else f"text{most}"
    limits = f", {schema['minimum']:.10g} to {schema['maximum']:.10g}" if "minimum" in schema else ""
    return f"{schema['type']}{limits}"


def _rules(schema: Mapping[str, Any]) -> Iterator[str]:
    """The messages of the API server's rules (`x-kubernetes-validations`), outermost first."""
    yield from (rule["message"] for rule in schema.get("x-kubernetes-validations", ()))
    for below in (*schema.get("properties", {}).values(), schema.get("items", {})):
        yield from _rules(below) if below else ()


def condition_types() -> set[str]:
    """Types of all conditions that `operators` writes, found in the calls that make a condition."""
    found = set()
    for path in sorted((ROOT / "operators").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                at = {"Condition": 0, "_set": 2, "_end": 2}.get(node.func.id)
                found |= _texts(node.args[at]) if at is not None and len(node.args) > at else set()
    # `_end` names a phase: of the two, only `Failed` is a condition as well.
    return found - {"Succeeded"}


def _texts(node: ast.expr) -> set[str]:
    """The values that an argument can have: a text, a constant of `names`, or either of two; a variable has none."""
    match node:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.Name(id=constant) if hasattr(names, constant):
            return {getattr(names, constant)}
        case ast.IfExp(body=one, orelse=other):
            return _texts(one) | _texts(other)
    return set()


def page() -> Iterator[str]:
    """The lines of the page."""
    yield from ("# Kubernetes objects", "")
    yield "The two custom resources of rm-emulator, and the names that it reads or writes on objects of Kubernetes."
    yield from ("[Install and run](../kubernetes.md) shows the objects in use.", "")
    for kind, crd in resources().items():
        yield from _resource(kind, crd)
    yield from ("## Labels, annotations and taints", "", "| name | kind | on | meaning |", "| --- | --- | --- | --- |")
    carried = {getattr(names, constant): name for constant, name in NAMES.items() if constant != "GATE"}
    for text, name in sorted({**carried, **IN_MANIFESTS}.items()):
        yield f"| `{text}` | {name.kind} | {name.on} | {cell(name.meaning)} |"
    gate = NAMES["GATE"]
    yield from (f"| `{names.GATE}` | {gate.kind} | {gate.on} | {cell(gate.meaning)} |", "")
    yield from ("## Conditions", "", "| type | on | written by | meaning |", "| --- | --- | --- | --- |")
    for kind, (on, writer, meaning) in CONDITIONS.items():
        yield f"| `{kind}` | {on} | {writer} | {cell(meaning)} |"


def _resource(kind: str, crd: Mapping[str, Any]) -> Iterator[str]:
    """One custom resource: a table for each of its objects, and the rules of the API server."""
    spec, version = crd["spec"], crd["spec"]["versions"][0]
    short = spec["names"]["shortNames"][0]
    yield from (f"## {kind}", "", str(version["schema"]["openAPIV3Schema"]["description"]), "")
    yield f"- API version: `{spec['group']}/{version['name']}`; scope: {spec['scope'].lower()}"
    columns = ", ".join(
        column["name"] + (" (`-o wide`)" if column.get("priority") else "")
        for column in version["additionalPrinterColumns"]
    )
    yield from (f"- `kubectl get {short}` prints: {columns}", "")
    below: dict[str, list[Field]] = {}
    for field in fields(kind):
        below.setdefault(field.path.rpartition(".")[0], []).append(field)
    for path, children in below.items():
        heading = f"{kind}.{path}" if path else f"Top level of a {kind}"
        yield from (f"### {heading}", "", "| field | type | default | meaning |", "| --- | --- | --- | --- |")
        for field in children:
            default = "required" if field.required else f"`{field.default}`" if field.default else ""
            name = field.path.rpartition(".")[2]
            yield f"| `{name}` | {cell(field.type)} | {default} | {cell(field.meaning)} |"
        yield ""
    yield from (
        f"### Rules of a {kind}",
        "",
        "The API server refuses an object that breaks a rule, with the message:",
        "",
    )
    yield from (f"- {message}" for message in dict.fromkeys(_rules(_schema(kind))))
    yield ""


def cell(text: str) -> str:
    """A text as the cell of a table."""
    return " ".join(html.escape(text, quote=False).split()).replace("|", "\\|")
