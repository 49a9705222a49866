"""capacity-scheduler.xml."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.hadoop.capacity import CapacityConfig, CapacityQueue, capacity_config
from rm_emulator.hadoop.configuration import Configuration
from rm_emulator.issues import Issues, TraceError

from .conftest import TWO_QUEUES, xml

P = "yarn.scheduler.capacity."


def read(tmp_path: Path, **changes: str) -> CapacityConfig:
    path = tmp_path / "capacity-scheduler.xml"
    path.write_text(xml({**TWO_QUEUES, **{P + name.replace("__", "."): value for name, value in changes.items()}}))
    conf = Configuration(Issues())
    conf.read(path)
    found = capacity_config(conf)
    conf.issues.check()
    return found


def queue(config: CapacityConfig, path: str) -> CapacityQueue:
    return next(q for q in config.queues if q.path == path)


def test_defaults_are_those_of_3_3_5(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert config.calculator == "default"
    assert (config.node_locality_delay, config.rack_locality_additional_delay) == (40, -1)
    assert (config.maximum_offswitch_assignments, config.maximum_container_assignments) == (1, 100)
    assert queue(config, "root.a") == CapacityQueue(path="root.a", capacity=40)


def test_no_queues_at_all_is_hadoops_default_queue(tmp_path: Path) -> None:
    path = tmp_path / "c.xml"
    path.write_text("<configuration/>")
    conf = Configuration(Issues())
    conf.read(path)
    assert [q.path for q in capacity_config(conf).queues] == ["root", "root.default"]


def test_the_calculator_is_known_by_its_class(tmp_path: Path) -> None:
    name = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
    assert read(tmp_path, **{"resource-calculator": name}).calculator == "dominant"


def test_the_am_share_of_all_queues_holds_where_a_queue_has_none(tmp_path: Path) -> None:
    config = read(tmp_path, **{"maximum-am-resource-percent": "0.3", "root.a.maximum-am-resource-percent": "0.5"})
    assert queue(config, "root.a").maximum_am_resource_percent == 0.5
    assert queue(config, "root.b").maximum_am_resource_percent == 0.3


def test_queues_below_queues(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        **{"root.a.queues": "x, y", "root.a.x.capacity": "30", "root.a.y.capacity": "70", "root.a.priority": "3"},
    )
    assert [q.path for q in config.queues] == ["root", "root.a", "root.a.x", "root.a.y", "root.b"]
    assert queue(config, "root.a").children == ("root.a.x", "root.a.y")
    assert (queue(config, "root.a").priority, queue(config, "root.a").ordering) == (3, "utilization")


def test_preemption_switched_off_is_inherited(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        **{
            "root.a.queues": "x,y",
            "root.a.x.capacity": "50",
            "root.a.y.capacity": "50",
            "root.a.disable_preemption": "true",
            "root.a.y.disable_preemption": "false",
        },
    )
    assert not queue(config, "root.a.x").preemptible
    assert queue(config, "root.a.y").preemptible
    assert queue(config, "root.b").preemptible


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"root.a.capacity": "50"},
            ":3: yarn.scheduler.capacity.root.a.capacity: the queues of root have 110 % in all",
        ),
        ({"root.a.capacity": "[memory=1024]"}, "'[memory=1024]' is not accepted (expected a number from 0 to 100)"),
        ({"root.a.capacity": "-1"}, "'-1' is not accepted"),
        ({"root.a.maximum-capacity": "20"}, "20 is below the queue's capacity (40)"),
        ({"root.a.ordering-policy": "fiar"}, "expected fifo, fair, "),
        ({"root.ordering-policy": "fifo"}, "expected utilization, priority-utilization"),
        ({"root.queues": "a,b,a"}, "queue 'a' is named 2 times"),
        ({"root.queues": "a,b,c d"}, "'c d' is not a queue's name"),
        ({"maximum-am-resource-percent": "30"}, "expected a number from 0 to 1"),
        (
            {"resource-calculator": "org.apache.hadoop.yarn.util.DominantResourceCalculator"},
            "did you mean 'org.apache.hadoop",
        ),
    ],
)
def test_mistakes(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(TraceError) as raised:
        read(tmp_path, **changes)
    assert message in str(raised.value)


def test_capacities_may_be_off_by_rounding(tmp_path: Path) -> None:
    assert read(tmp_path, **{"root.a.capacity": "39.999"}).queues
