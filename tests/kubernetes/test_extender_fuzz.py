"""Whatever is sent, the extender answers: in the shape of the verb, without a stranger's name, and goes on."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.extender import wire
from operators.extender.wire import FilterAnswer
from tests.examples import examples
from tests.kubernetes.calls import POD, Recorder, Reply, call

VERBS = st.sampled_from(["filter", "prioritize", "preempt"])
NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CASES = st.sampled_from([str, str.lower, str.upper, str.swapcase])
KEYS = {
    "filter": ("Pod", "Nodes", "NodeNames"),
    "prioritize": ("Pod", "Nodes", "NodeNames"),
    "preempt": ("Pod", "NodeNameToVictims", "NodeNameToMetaVictims"),
}
FILTER_KEYS = ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]


def check_shape(verb: str, reply: Reply) -> None:
    """As kube-scheduler would read it: 200 in the verb's shape, or a status that makes it an error."""
    if verb == "filter":
        assert reply.status == 200
        assert list(reply.json) == FILTER_KEYS
        assert isinstance(reply.json["Error"], str)
    elif verb == "prioritize":
        assert reply.status == 200
        assert all(isinstance(line["Host"], str) and 0 <= line["Score"] <= 10 for line in reply.json)
    else:
        assert reply.status in (200, 400)
        assert reply.status != 200 or list(reply.json) == ["NodeNameToMetaVictims"]


def whole(names: list[str]) -> dict[str, Any]:
    return {"metadata": {}, "items": [{"metadata": {"name": name}} for name in names]}


@given(VERBS, st.binary(max_size=200))
def test_any_bytes_are_answered(verb: str, body: bytes) -> None:
    check_shape(verb, call(Recorder(), verb, body))


@given(VERBS, JSON)
def test_any_json_is_answered(verb: str, body: Any) -> None:
    check_shape(verb, call(Recorder(), verb, msgspec.json.encode(body)))


@given(st.data(), VERBS)
@settings(max_examples=examples(200))
def test_any_type_in_any_field_is_answered(data: st.DataObject, verb: str) -> None:
    good = {"Pod": POD, "NodeNames": ["a"], "Nodes": None, "NodeNameToMetaVictims": {}, "NodeNameToVictims": None}
    body = {data.draw(CASES)(key): data.draw(st.just(good[key]) | JSON) for key in KEYS[verb]}
    check_shape(verb, call(Recorder(), verb, body))


@given(VERBS, st.integers(0, 400))
def test_a_body_cut_anywhere_is_answered(verb: str, at: int) -> None:
    victims = {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 0}}
    whole_body = msgspec.json.encode({"Pod": POD, "NodeNames": ["a", "é"], "NodeNameToMetaVictims": victims})
    check_shape(verb, call(Recorder(), verb, whole_body[:at]))


@given(st.lists(NAMES, unique=True, max_size=6), CASES, st.booleans())
def test_any_names_in_either_form_come_back_in_that_form(names: list[str], case: Any, as_nodes: bool) -> None:
    body = {
        case("Pod"): POD,
        case("Nodes"): whole(names) if as_nodes else None,
        case("NodeNames"): None if as_nodes else names,
    }
    brain = Recorder()
    brain.answer = lambda pod, nodes: FilterAnswer(list(nodes))
    reply = call(brain, "filter", body).json
    assert (reply["Nodes"], reply["NodeNames"]) == ((whole(names), None) if as_nodes else (None, names))


@given(st.lists(NAMES, unique=True, max_size=6), st.lists(NAMES, max_size=6), st.lists(NAMES, max_size=6))
def test_no_answer_names_a_stranger(asked: list[str], nodes: list[str], others: list[str]) -> None:
    brain = Recorder()
    brain.answer = lambda pod, names: FilterAnswer([*nodes], dict.fromkeys(others, "x"), dict.fromkeys(nodes, "y"))
    reply = call(brain, "filter", {"Pod": POD, "NodeNames": asked}).json
    said = [*reply["NodeNames"], *reply["FailedNodes"], *reply["FailedAndUnresolvableNodes"]]
    assert set(said) <= set(asked)
    assert len(set(reply["NodeNames"])) == len(reply["NodeNames"])


@given(st.lists(NAMES, unique=True, min_size=1, max_size=6), st.data())
def test_a_refusal_explains_every_node(asked: list[str], data: st.DataObject) -> None:
    explained = data.draw(st.lists(st.sampled_from(asked), unique=True))
    brain = Recorder()
    brain.answer = lambda pod, names: FilterAnswer([], dict.fromkeys(explained, "full"))
    reply = call(brain, "filter", {"Pod": POD, "NodeNames": asked}).json
    assert reply["FailedNodes"].keys() | reply["FailedAndUnresolvableNodes"].keys() == set(asked)


def test_a_huge_list_of_names_is_answered() -> None:
    names = [f"node-{i:06}" for i in range(wire.MOST)]
    assert call(Recorder(), "filter", {"Pod": POD, "NodeNames": names}).json["NodeNames"] == names[:1]
