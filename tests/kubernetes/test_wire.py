"""The envelopes of the extender's verbs, to the letter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from operators.extender.wire import (
    BadRequest,
    FilterAnswer,
    filter_reply,
    preempt_reply,
    prioritize_reply,
    read_args,
    read_preemption_args,
)
from tests.kubernetes.calls import POD


def encode(**fields: Any) -> bytes:
    return msgspec.json.encode(fields)


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"é": "ü"}}, "status": {"allocatable": {"cpu": "8"}}}


def whole(*names: str) -> dict[str, Any]:
    return {"metadata": {}, "items": [node(name) for name in names]}


def test_names_only_are_read() -> None:
    asked = read_args(encode(Pod=POD, Nodes=None, NodeNames=["b", "a"]))
    assert (asked.names, asked.nodes) == (["b", "a"], None)


def test_whole_nodes_give_names() -> None:
    asked = read_args(encode(Pod=POD, Nodes=whole("b", "a"), NodeNames=None))
    assert asked.names == ["b", "a"]


def test_the_pod_inside_is_an_api_object() -> None:
    asked = read_args(encode(Pod=POD, Nodes=None, NodeNames=[]))
    assert (asked.pod.key, asked.pod.metadata.uid) == ("ns/p", "u")


def test_both_null_means_no_nodes() -> None:
    assert read_args(encode(Pod=POD, Nodes=None, NodeNames=None)).names == []


def test_an_empty_node_list_of_go_is_null() -> None:
    asked = read_args(encode(Pod=POD, Nodes={"metadata": {}, "items": None}, NodeNames=None))
    assert (asked.names, asked.nodes) == ([], {})


def test_a_name_given_twice_counts_once() -> None:
    assert read_args(encode(Pod=POD, NodeNames=["a", "b", "a"])).names == ["a", "b"]


@pytest.mark.parametrize("change", [str.lower, str.upper, str.swapcase])
def test_keys_are_read_in_any_case(change: Any) -> None:
    body = msgspec.json.encode({change("Pod"): POD, change("NodeNames"): ["a"]})
    assert read_args(body).names == ["a"]


def test_the_last_of_two_spellings_wins_as_in_go() -> None:
    body = b'{"Pod":' + msgspec.json.encode(POD) + b',"NodeNames":["a"],"nodenames":["b"]}'
    assert read_args(body).names == ["b"]


def test_unknown_keys_are_left_alone() -> None:
    assert read_args(encode(Pod=POD, NodeNames=["a"], Future={"x": 1})).names == ["a"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body"),
        (b"null", "the body"),
        (b"[]", "the body"),
        (b'{"Pod":', "the body"),
        (encode(NodeNames=["a"]), "Pod: there is none"),
        (encode(Pod=None, NodeNames=["a"]), "Pod: there is none"),
        (encode(Pod={"metadata": {}}, NodeNames=["a"]), "Pod.metadata.name"),
        (encode(Pod="p", NodeNames=["a"]), "Pod: Expected `object`, got `str`"),
        (encode(Pod=POD, NodeNames="a"), "NodeNames: Expected `array | null`, got `str`"),
        (encode(Pod=POD, NodeNames=[1]), "NodeNames: Expected `str`, got `int` - at `$[0]`"),
        (encode(Pod=POD, Nodes=[]), "Nodes: "),
        (encode(Pod=POD, Nodes={"items": [{"metadata": {}}]}), "Nodes.items[0]: "),
        (b'{"Pod":' + msgspec.json.encode(POD) + b',"NodeNames":["\xff"]}', "NodeNames: "),
        (b'{"Pod":' + b"[" * 100_000, "the body"),
    ],
)
def test_a_body_that_cannot_be_read_says_where(body: bytes, says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_args(body)
    assert str(caught.value).startswith(says)


def test_filter_answers_names_with_names() -> None:
    asked = read_args(encode(Pod=POD, NodeNames=["a", "b"]))
    reply = filter_reply(asked, FilterAnswer(["a"], {"b": "full"}))
    assert reply == (
        b'{"Nodes":null,"NodeNames":["a"],"FailedNodes":{"b":"full"},"FailedAndUnresolvableNodes":{},"Error":""}'
    )


def test_filter_answers_whole_nodes_with_the_same_objects() -> None:
    asked = read_args(encode(Pod=POD, Nodes=whole("a", "b")))
    reply = msgspec.json.decode(filter_reply(asked, FilterAnswer(["b"], {}, {"a": "no"})))
    assert reply["Nodes"] == whole("b")
    assert reply["NodeNames"] is None


def test_filter_without_nodes_answers_an_empty_list_not_null() -> None:
    names = read_args(encode(Pod=POD, NodeNames=["a"]))
    nodes = read_args(encode(Pod=POD, Nodes=whole("a")))
    assert msgspec.json.decode(filter_reply(names, FilterAnswer([])))["NodeNames"] == []
    assert msgspec.json.decode(filter_reply(nodes, FilterAnswer([])))["Nodes"] == {"metadata": {}, "items": []}


def test_prioritize_answers_a_bare_list() -> None:
    assert prioritize_reply([("a", 3)]) == b'[{"Host":"a","Score":3}]'


def test_scores_stay_within_the_documented_range() -> None:
    assert prioritize_reply([("a", -1), ("b", 11)]) == b'[{"Host":"a","Score":0},{"Host":"b","Score":10}]'


def test_victims_by_uid_are_read() -> None:
    victims = {"a": {"Pods": [{"UID": "1"}, {"UID": "2"}], "NumPDBViolations": 1}}
    asked = read_preemption_args(encode(Pod=POD, NodeNameToVictims=None, NodeNameToMetaVictims=victims))
    assert asked.victims == {"a": (["1", "2"], 1)}


def test_victims_as_whole_pods_are_read() -> None:
    victims = {"a": {"Pods": [{"metadata": {"uid": "1"}}], "NumPDBViolations": 0}}
    asked = read_preemption_args(encode(Pod=POD, NodeNameToVictims=victims, NodeNameToMetaVictims=None))
    assert asked.victims == {"a": (["1"], 0)}


@pytest.mark.parametrize("pods", [None, []])
def test_a_node_without_victims_is_accepted(pods: Any) -> None:
    asked = read_preemption_args(encode(Pod=POD, NodeNameToMetaVictims={"a": {"Pods": pods, "NumPDBViolations": 0}}))
    assert asked.victims == {"a": ([], 0)}


def test_no_victims_at_all_are_accepted() -> None:
    assert read_preemption_args(encode(Pod=POD, NodeNameToVictims=None, NodeNameToMetaVictims=None)).victims == {}


def test_keys_of_victims_are_read_in_any_case() -> None:
    body = encode(pod=POD, nodenametometavictims={"A": {"pods": [{"uid": "1"}], "numpdbviolations": 2}})
    assert read_preemption_args(body).victims == {"A": (["1"], 2)}


def test_a_victim_without_uid_says_where() -> None:
    victims = {"a": {"Pods": [{"UID": "1"}, {}], "NumPDBViolations": 1}}
    with pytest.raises(BadRequest, match=r"NodeNameToMetaVictims\.a\.Pods\[1\]\.UID"):
        read_preemption_args(encode(Pod=POD, NodeNameToMetaVictims=victims))


def test_preempt_answers_by_uid() -> None:
    reply = preempt_reply({"a": (["1"], 2), "b": ([], 0)})
    assert reply == (
        b'{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"1"}],"NumPDBViolations":2},'
        b'"b":{"Pods":[],"NumPDBViolations":0}}}'
    )


GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("what", ["filter-plain", "prioritize-plain", "filter-selector", "filter-nominated"])
def test_both_forms_of_kube_schedulers_own_bodies_ask_the_same(what: str) -> None:
    names, nodes = (read_args((GOLDEN / f"{form}-{what}.json").read_bytes()) for form in ("names", "nodes"))
    assert len(names.names) == len(nodes.names) > 0
    assert (names.nodes is None, nodes.nodes is None) == (True, False)
    assert names.pod.metadata.name == nodes.pod.metadata.name


@pytest.mark.parametrize("form", ["names", "nodes"])
def test_a_nominated_node_is_asked_about_alone(form: str) -> None:
    asked = read_args((GOLDEN / f"{form}-filter-nominated.json").read_bytes())
    assert asked.names == [asked.pod.status.nominatedNodeName]


@pytest.mark.parametrize("form", ["names", "nodes"])
def test_kube_schedulers_own_victims_are_read(form: str) -> None:
    asked = read_preemption_args((GOLDEN / f"{form}-preempt.json").read_bytes())
    assert sorted(asked.victims) == ["n0", "n1", "n2"]
    assert all(len(uids) == 1 and broken == 0 for uids, broken in asked.victims.values())


def test_a_body_with_text_that_is_not_ascii_is_read() -> None:
    body = (GOLDEN / "names-filter-plain.json").read_bytes()
    assert "título, наука" in body.decode()
    assert read_args(body).pod.key == "ns/plain"
