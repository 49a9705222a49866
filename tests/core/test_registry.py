"""Registries: names, settings, and messages that help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import msgspec
import pytest

from schedulers.core.errors import InvalidParameters, UnknownName, nearest
from schedulers.core.policy import policies
from schedulers.core.registry import Registry


class Thing:
    """Does a thing.

    And more.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        size: Annotated[int, msgspec.Meta(ge=1, description="how large")] = 3
        names: Annotated[tuple[str, ...], msgspec.Meta(description="what they are called")] = ()
        limit: Annotated[float | None, msgspec.Meta(description="no more than this")] = None


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry[Thing]:
    package = ModuleType("things")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "things", package)
    made: Registry[Thing] = Registry("thing", "things")
    made.register("thing", source="a book")(Thing)
    return made


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    with pytest.raises(
        UnknownName, match=r"unknown policy 'fiffo', did you mean 'fifo'\? \(known: .*fair, fair_yarn, fifo"
    ):
        policies.entry("fiffo")


def test_a_far_off_name_gets_no_guess() -> None:
    with pytest.raises(UnknownName, match=r"unknown policy 'zebra' \(known"):
        policies.entry("zebra")


def test_settings_have_their_defaults(registry: Registry[Thing]) -> None:
    cls, params = registry.parse({"kind": "thing"})
    assert (cls, params) == (Thing, Thing.Params())


def test_settings_are_taken_over(registry: Registry[Thing]) -> None:
    assert registry.parse({"kind": "thing", "size": 5, "names": ["a"]})[1] == Thing.Params(size=5, names=("a",))


def test_an_unknown_setting_gets_the_nearest_one(registry: Registry[Thing]) -> None:
    with pytest.raises(InvalidParameters, match=r"thing 'thing' has no setting 'sise', did you mean 'size'\?"):
        registry.parse({"kind": "thing", "sise": 1})


@pytest.mark.parametrize(("key", "value"), [("size", 0), ("size", "3"), ("size", 1.5), ("limit", "x")])
def test_a_wrong_value_names_the_setting(registry: Registry[Thing], key: str, value: object) -> None:
    with pytest.raises(InvalidParameters, match=key):
        registry.parse({"kind": "thing", key: value})


def test_a_missing_kind_is_an_unknown_name(registry: Registry[Thing]) -> None:
    with pytest.raises(UnknownName, match="unknown thing ''"):
        registry.parse({})


def test_listings_come_from_the_class(registry: Registry[Thing]) -> None:
    said = msgspec.json.decode(msgspec.json.encode(registry.entry("thing").describe()))
    assert said["summary"] == "Does a thing."
    assert said["source"] == "a book"
    assert said["parameters"] == [
        {"name": "size", "type": "integer", "default": 3, "description": "how large"},
        {"name": "names", "type": "list of string", "default": [], "description": "what they are called"},
        {"name": "limit", "type": "number | null", "default": None, "description": "no more than this"},
    ]


def test_entries_come_sorted_by_name(registry: Registry[Thing]) -> None:
    registry.register("a", source="x")(type("A", (), {}))
    assert [entry.name for entry in registry] == ["a", "thing"]


def test_a_name_is_taken_once(registry: Registry[Thing]) -> None:
    with pytest.raises(InvalidParameters, match="'thing' is registered already, by"):
        registry.register("thing", source="x")(type("Other", (), {}))


def test_a_class_of_the_same_name_elsewhere_does_not_replace_it(registry: Registry[Thing]) -> None:
    with pytest.raises(InvalidParameters, match="registered already"):
        registry.register("thing", source="x")(type("Thing", (), {"__module__": "elsewhere"}))


def test_registering_the_same_class_again_is_harmless(registry: Registry[Thing]) -> None:
    registry.register("thing", source="a book")(Thing)
    assert len(list(registry)) == 1


def test_a_name_is_found_in_the_module_of_that_name_alone() -> None:
    code = (
        "import sys; from schedulers.core.policy import policies; policies.entry('fifo');"
        "print([m for m in sys.modules if m.startswith('schedulers.policies.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['schedulers.policies.fifo']\n"


@pytest.mark.parametrize("name", ["first_fit", "worst_fit"])  # `worst_fit` is in a module of another name
def test_a_plug_in_does_not_take_the_name_of_a_class_that_is_not_imported_yet(name: str) -> None:
    code = (
        "from schedulers.core.errors import InvalidParameters; from schedulers.core.placer import placers\n"
        f"try: placers.register({name!r}, source='x')(type('Mine', (), {{'__module__': 'mine'}}))\n"
        "except InvalidParameters as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"placer '{name}' is registered already, by schedulers.placers." in done.stdout


def test_every_module_of_the_package_registers_itself() -> None:
    there = Path(sys.modules[policies.entry("fifo").cls.__module__].__file__ or "").parent
    modules = {file.stem for file in there.glob("*.py")} - {"__init__"}
    registered = [entry.cls.__module__.rpartition(".") for entry in policies]
    # Other tests have plug-ins, which are of other packages.
    assert {name for package, _, name in registered if package == "schedulers.policies"} == modules


def test_contains(registry: Registry[Thing]) -> None:
    assert "thing" in registry
    assert "other" not in registry


def test_nearest_wants_a_typing_mistake() -> None:
    assert nearest("slern", ["slearn", "oracle"]) == "slearn"
    assert nearest("x", ["slearn", "oracle"]) is None
