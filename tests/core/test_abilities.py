"""Abilities: found in a policy or inside it, by settings, and none of them named by what wraps a policy."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedulers.core import abilities
from schedulers.core.abilities import (
    Ability,
    Copies,
    NeedsCopies,
    NeedsEstimates,
    Plans,
    Preempts,
    ability,
    uses_of_queues,
)
from schedulers.core.compatible import policy_of
from schedulers.core.errors import InvalidParameters
from schedulers.core.policy import _ABILITY_OF_MEMBER, Policy, policies

PLUGIN = """
from schedulers.core.abilities import Ability
from schedulers.core.policy import policies
from schedulers.policies.fifo import Fifo

class Sings(Ability):
    "Sings."

    def song(self):
        return "la"

@policies.register("singing", source="a test")
class Singing(Fifo, Sings):
    "Sings."
"""


@pytest.fixture
def sings(tmp_path: Path) -> Iterator[type[Any]]:
    """An ability of a plug-in, of which nothing in the tree knows, and a policy that has the ability."""
    (tmp_path / "singing_plugin.py").write_text(PLUGIN)
    spec = importlib.util.spec_from_file_location("singing_plugin", tmp_path / "singing_plugin.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["singing_plugin"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.Sings
    del policies._entries["singing"], sys.modules["singing_plugin"]


def made(kind: str, **settings: Any) -> Policy:
    policy = policy_of({"kind": kind, **settings})
    assert policy is not None
    return policy


def test_an_ability_of_a_plug_in_is_found_in_its_policy_and_through_any_policies_around_it(sings: type[Any]) -> None:
    inside = {"kind": "singing"}
    for policy in (
        made("singing"),
        made("bounded", policy=inside),
        made("jockey", policy=inside),
        made("bounded", policy={"kind": "bounded", "policy": inside}),
    ):
        found = ability(policy, sings)
        assert found is not None
        assert found.song() == "la"
    assert ability(made("bounded", policy={"kind": "fifo"}), sings) is None


@pytest.mark.parametrize(
    ("settings", "kind", "has"),
    [
        ({"kind": "capacity"}, Preempts, False),
        ({"kind": "capacity", "preemption": {"enabled": True}}, Preempts, True),
        ({"kind": "graphene"}, Plans, True),
        ({"kind": "graphene", "plan": "path"}, Plans, False),
        ({"kind": "planned"}, NeedsCopies, False),
        ({"kind": "planned"}, Copies, False),
        ({"kind": "planned", "planner": "tds"}, NeedsCopies, True),
        ({"kind": "planned", "planner": "tds"}, Copies, True),
        ({"kind": "dispatch", "rule": "fair"}, NeedsEstimates, False),
        ({"kind": "dispatch", "rule": "priced"}, NeedsEstimates, True),
        ({"kind": "bounded", "policy": {"kind": "graphene", "plan": "none"}}, Plans, False),
    ],
    ids=str,
)
def test_what_a_policy_can_do_depends_on_its_settings(settings: dict[str, Any], kind: type[Ability], has: bool) -> None:
    assert (ability(policy_of(settings), kind) is not None) == has


def test_every_ability_says_what_it_is() -> None:
    kinds = [each for each in vars(abilities).values() if isinstance(each, type) and issubclass(each, Ability)]
    assert all(each.__doc__ for each in kinds)


def test_a_policy_around_another_adds_to_its_uses_of_queues() -> None:
    assert set(uses_of_queues(*policies.parse({"kind": "bounded", "policy": {"kind": "capacity"}}))) == {
        "weight",
        "guaranteed",
    }


@pytest.mark.parametrize(
    ("before", "kind"),
    [({"reserves": True}, "KeepsNodes"), ({"preempts": True}, "Preempts"), ({"urges": ()}, "WantsNodes")],
)
def test_a_policy_that_defines_what_nobody_would_ask_is_refused(before: dict[str, object], kind: str) -> None:
    old = type("Old", (Policy,), before)
    with pytest.raises(InvalidParameters, match=rf"'{next(iter(before))}'.*schedulers\.core\.abilities\.{kind}$"):
        policies.register("old", source="a test")(old)


def test_what_a_policy_of_before_is_told_to_inherit_is_there() -> None:
    assert all(issubclass(getattr(abilities, name), Ability) for name in _ABILITY_OF_MEMBER.values())
