"""Controls: whatever stands behind one, the simulation finds all that it asks for."""

from __future__ import annotations

import pytest

from rm_emulator.engine.control import Control, OneScheduler
from rm_emulator.engine.multiple_schedulers import MultipleSchedulers
from rm_emulator.engine.workers import Workers
from schedulers.core.events import NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.scheduler import Scheduler
from schedulers.decentralised.decider import Decentraliser

CONFIG = SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, offers="thought", decentralised={})
ASKED = sorted(name for name in {*Control.__annotations__, *vars(Control)} if not name.startswith("_"))


def controls() -> list[Control]:
    two = [Scheduler(CONFIG), Scheduler(CONFIG)]
    return [OneScheduler(Scheduler(CONFIG)), MultipleSchedulers(two, {}), Workers(Decentraliser(CONFIG))]


@pytest.mark.parametrize("control", controls(), ids=lambda control: type(control).__name__)
def test_a_control_has_all_that_is_asked_of_it(control: Control) -> None:
    assert [name for name in ASKED if not hasattr(control, name)] == []


@pytest.mark.parametrize("control", controls(), ids=lambda control: type(control).__name__)
def test_a_fact_about_a_node_is_a_change_and_leaves_nobody_waiting(control: Control) -> None:
    before = control.version
    control.handle(NodeAdded(0, Node(id="n", capacity=(1,))))
    assert control.version > before
    assert control.waiting == (0, 0)
