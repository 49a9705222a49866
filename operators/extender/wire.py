"""kube-scheduler's calls to an extender and the expected answers, to the letter.

The envelopes have no JSON tags in Go, so their keys are the Go names with a capital letter; the objects inside (Pod,
Node) are ordinary API objects. Go reads keys in any case and writes them exactly; so does this module.
Source: k8s.io/kube-scheduler/extender/v1/types.go and k8s.io/kubernetes/pkg/scheduler/extender.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from schedulers.objects.pod import Pod

T = TypeVar("T")
#: Victims per node: the uids of its pods that would have to go, and how many disruption budgets that breaks.
Victims = dict[str, tuple[list[str], int]]
_UidOf = Callable[[msgspec.Raw, str], str]
#: The most nodes, or pods, of one call: thirteen times as many nodes as Kubernetes is tested with. A longer answer
#: would keep the process from its probes.
MOST: Final = 65_000
#: Scores outside this range are not refused by kube-scheduler but outvote everything else.
MIN_SCORE: Final = 0
MAX_SCORE: Final = 10


class BadRequest(ValueError):
    """A body of the wrong form for the verb; the message says where and why."""


class TooLarge(BadRequest):
    """A body with more names than any real call."""


class ExtenderArgs(msgspec.Struct):
    """Arguments of filter and prioritize (`ExtenderArgs`)."""

    pod: Pod
    names: list[str]
    """The nodes asked about, each once, in the order given."""
    nodes: dict[str, msgspec.Raw] | None = None
    """The same as whole Node objects, under `nodeCacheCapable: false`; None for a call with names only."""


class ExtenderPreemptionArgs(msgspec.Struct):
    """Arguments of preempt (`ExtenderPreemptionArgs`), from either of its two forms. A list of uids may be empty."""

    pod: Pod
    victims: Victims


class FilterAnswer(msgspec.Struct):
    """The brain's answer to filter."""

    nodes: list[str]
    """Nodes to which the pod may be bound."""
    failed: dict[str, str] = {}
    """Reason by node, where preemption might help."""
    unresolvable: dict[str, str] = {}
    """Reason by node, where preemption cannot help."""
    error: str = ""
    """The call fails as a whole and the pod is tried again; everything else is ignored."""


class _Name(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Name


class _Uid(msgspec.Struct):
    uid: str


class _Identified(msgspec.Struct):
    metadata: _Uid


# Made once: a decoder costs more to make than a call to answer.
_encoder = msgspec.json.Encoder()
_pod = msgspec.json.Decoder(Pod)
_names = msgspec.json.Decoder(list[str] | None)
_raws = msgspec.json.Decoder(list[msgspec.Raw] | None)
_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_maybe = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_text = msgspec.json.Decoder(str)
_count = msgspec.json.Decoder(int)
_node = msgspec.json.Decoder(_Named)
_victim = msgspec.json.Decoder(_Identified)


def read_args(body: bytes) -> ExtenderArgs:
    """The body of filter or prioritize. Neither `Nodes` nor `NodeNames` means no nodes. Raises BadRequest."""
    fields = _fields(body, "the body")
    pod = _read_pod(fields)
    listed = fields.get("nodenames")
    # Counted before it is read: a node's name has no comma.
    _check_count(0 if listed is None else 1 + bytes(listed).count(b","), "NodeNames")
    names = _read(_names, listed, "NodeNames")
    if names is not None:
        return ExtenderArgs(pod, list(dict.fromkeys(names)))
    items = _read(_maybe, fields.get("nodes"), "Nodes")
    if items is None:
        return ExtenderArgs(pod, [])
    raws = _read(_raws, _folded(items).get("items"), "Nodes.items") or []
    _check_count(len(raws), "Nodes.items")
    # Only the name is decoded; the node itself stays raw bytes, to be handed back as it came.
    nodes = {_need(_node, raw, f"Nodes.items[{i}]").metadata.name: raw for i, raw in enumerate(raws)}
    return ExtenderArgs(pod, list(nodes), nodes)


def read_preemption_args(body: bytes) -> ExtenderPreemptionArgs:
    """The body of preempt: full pods or uids only, as `nodeCacheCapable` has it. Raises BadRequest."""
    fields = _fields(body, "the body")
    pod = _read_pod(fields)
    for key, uid_of in (("NodeNameToMetaVictims", _meta_uid), ("NodeNameToVictims", _victim_uid)):
        nodes = _read(_maybe, fields.get(key.lower()), key)
        if nodes is not None:
            return ExtenderPreemptionArgs(pod, _read_nodes(nodes, key, uid_of))
    return ExtenderPreemptionArgs(pod, {})


def filter_reply(args: ExtenderArgs | None, answer: FilterAnswer) -> bytes:
    """`ExtenderFilterResult`, in the question's form; `args` is None for an unreadable question.

    kube-scheduler reads `NodeNames` only if it sent names, and otherwise the `items` of `Nodes`.
    """
    whole = args.nodes if args is not None else None
    result = {
        # Whole objects go back as they came: scoring plug-ins go on with what the extender returns.
        "Nodes": None if whole is None else {"items": [whole[name] for name in answer.nodes], "metadata": {}},
        "NodeNames": answer.nodes if whole is None else None,
        "FailedNodes": answer.failed,
        "FailedAndUnresolvableNodes": answer.unresolvable,
        "Error": answer.error,
    }
    return _encoder.encode(result)


def prioritize_reply(scores: Iterable[tuple[str, int]]) -> bytes:
    """`HostPriorityList`, a bare list; scores beyond the range are brought back into it."""
    return _encoder.encode([{"Host": host, "Score": min(MAX_SCORE, max(MIN_SCORE, score))} for host, score in scores])


def preempt_reply(victims: Victims) -> bytes:
    """`ExtenderPreemptionResult`: always by uid, whichever form was asked in."""
    nodes = {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": broken}
        for name, (uids, broken) in victims.items()
    }
    return _encoder.encode({"NodeNameToMetaVictims": nodes})


def _read_pod(fields: Mapping[str, msgspec.Raw]) -> Pod:
    raw = fields.get("pod")
    if raw is None or bytes(raw) == b"null":
        raise BadRequest("Pod: there is none")
    pod = _need(_pod, raw, "Pod")
    if not pod.metadata.name:
        raise BadRequest("Pod.metadata.name: there is none")
    return pod


def _read_nodes(nodes: Mapping[str, msgspec.Raw], path: str, uid_of: _UidOf) -> Victims:
    _check_count(len(nodes), path)
    victims: Victims = {}
    count = 0
    for name, raw in nodes.items():
        listed = _read(_maybe, raw, f"{path}.{name}")
        fields = _folded(listed or {})
        # Counted as they come, before a single pod is decoded.
        pods = _read(_raws, fields.get("pods"), f"{path}.{name}.Pods") or []
        count += len(pods)
        _check_count(count, f"{path}: pods")
        broken = _read(_count, fields.get("numpdbviolations"), f"{path}.{name}.NumPDBViolations")
        victims[name] = [uid_of(pod, f"{path}.{name}.Pods[{i}]") for i, pod in enumerate(pods)], broken or 0
    return victims


def _check_count(count: int, path: str) -> None:
    if count > MOST:
        raise TooLarge(f"{path}: more than {MOST} in one call")


def _meta_uid(raw: msgspec.Raw, path: str) -> str:
    return _need(_text, _fields(raw, path).get("uid", msgspec.Raw(b"null")), f"{path}.UID")


def _victim_uid(raw: msgspec.Raw, path: str) -> str:
    return _need(_victim, raw, path).metadata.uid


def _fields(data: bytes | msgspec.Raw, path: str) -> dict[str, msgspec.Raw]:
    """An envelope's fields by key in lower case, the last one winning, as in Go."""
    return _folded(_need(_objects, data, path))


def _folded(fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    return {key.casefold(): raw for key, raw in fields.items()}


def _read(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw | None, path: str) -> T | None:
    return None if raw is None else _need(decoder, raw, path)


def _need(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, path: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{path}: {error}") from None
