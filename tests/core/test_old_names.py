"""Old names of classes and members go on working for plug-ins, with a DeprecationWarning."""

import importlib

import pytest

from schedulers.core import abilities
from schedulers.core.abilities import Remembers, WantsNodes
from schedulers.core.live import NodeState, StageState
from schedulers.core.model import Node
from schedulers.core.predictor import Predictor
from schedulers.core.registry import NoParams


def test_an_old_attribute_is_read_as_the_new_one() -> None:
    stage = StageState(index=0, demand=(1,), size=0, tasks=3, waiting=3, parents_left=0, asked=True)
    with pytest.warns(DeprecationWarning, match="StageState.others is called waiting_non_pilots now"):
        assert stage.others == 3


def test_an_old_method_is_called_as_the_new_one() -> None:
    stage = StageState(index=0, demand=(2,), size=0, tasks=3, waiting=3, parents_left=0, asked=True)
    with pytest.warns(DeprecationWarning, match="fit_count"):
        assert NodeState(Node(id="n", capacity=(5,)), 0, [5]).room_for(stage) == 2


def test_a_subclass_may_set_an_attribute_by_its_old_name() -> None:
    class Plugged(Remembers):
        pass

    plugged = Plugged()
    with pytest.warns(DeprecationWarning, match="memory_changed"):
        plugged.noted = True
    assert plugged.pop_memory_changed()
    assert not plugged.memory_changed


def test_a_subclass_may_override_a_method_by_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match="Plugged.told is called hear_estimates now"):

        class Plugged(Predictor):
            def told(self, job: str, runtimes_ms: object) -> None:
                self.heard = job

    plugged = Plugged(NoParams())
    plugged.hear_estimates("j", [1])
    assert plugged.heard == "j"
    with pytest.warns(DeprecationWarning, match="told"):
        plugged.told("k", [1])
    assert plugged.heard == "k"


def test_an_attribute_of_a_class_may_have_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match="urges"):

        class Plugged(WantsNodes):
            urges = ("n1",)

    assert Plugged().wanted_nodes == ("n1",)


def test_a_new_name_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    class Plugged(WantsNodes):
        wanted_nodes = ("n1",)

    assert Plugged().wanted_nodes == ("n1",)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("schedulers.core.abilities", "Urges", "WantsNodes"),
        ("schedulers.kit.assigned", "Lined", "AssigningPolicy"),
        ("schedulers.kit.lines", "Turn", "QueuedTask"),
    ],
)
def test_an_old_class_is_imported_as_the_new_one(module: str, old: str, new: str) -> None:
    found = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now"):
        assert getattr(found, old) is getattr(found, new)


@pytest.mark.parametrize("name", ["Sings", "left"])
def test_a_name_that_never_was_is_not_found(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(abilities, name)
