"""What jobs ask for that do not know what their tasks use."""

from __future__ import annotations

from statistics import fmean

import msgspec
import pytest

from rm_emulator.testing import job
from rm_emulator.workload.asks import Asks, misjudge
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Node, PastJob, Stage
from schedulers.core.places import Places, Requirement, Taint
from schedulers.core.predictor import predictors

NAMES = ("cpu", "memory", "disk")
NODE = Node(id="n", capacity=(4000, 4096, 1000))
USE = (1000, 1024, 100)


def workload(*uses: tuple[int, int, int], stage: Stage | None = None) -> Workload:
    plain = stage or Stage(name="s", tasks=1, demand=USE)
    stages = tuple(msgspec.structs.replace(plain, demand=use) for use in uses)
    entry = WorkloadJob(job=job("j", *stages), submit_ms=0, runtimes=(Fixed(1),) * len(stages))
    past = PastJob(name="j", submitted=-9, finished=-1, stages=((1, 5.0),), demand=USE)
    return Workload(name="w", jobs=(entry,), history=(past,), resources=NAMES)


def asked(
    made: Workload,
    *nodes: Node,
    error: tuple[float, float] = (0.0, 0.0),
    without: tuple[str, ...] = (),
    seed: int = 1,
) -> list[tuple[int, ...]]:
    found = misjudge(made, nodes or [NODE], Asks(error=error, without=tuple(without)), seed)
    return [stage.demand for stage in found.jobs[0].job.stages]


def test_tasks_use_what_was_asked_for_so_far() -> None:
    found = misjudge(workload(USE, (1, 1, 1)), [NODE], Asks(error=(-0.5, 0.5), without=("disk",)), 1)
    assert found.jobs[0].usage == (USE, (1, 1, 1))


def test_what_is_known_to_be_used_stays_the_truth() -> None:
    once = misjudge(workload(USE), [NODE], Asks(error=(0.5, 0.5), without=()), 1)
    back, at_first = Asks(error=(-0.5, -0.5)), workload(USE)
    assert misjudge(once, [NODE], back, 1) == misjudge(at_first, [NODE], back, 1)


def test_all_resources_of_a_stage_are_wrong_by_the_oracle_s_factor() -> None:
    cls, params = predictors.parse({"kind": "oracle", "error": [-0.5, 0.75]})
    oracle = cls(params, seed=3)
    oracle.hear_estimates("j", (1_000_000,) * 50)
    for index, ask in enumerate(asked(workload(*[USE] * 50), error=(-0.5, 0.75), seed=3)):
        estimate = oracle.estimate("j", index)
        assert estimate is not None
        assert ask == tuple(round(amount * estimate.task_ms / 1_000_000) for amount in USE)


def test_asks_differ_by_stage_and_seed() -> None:
    first, second = asked(workload(USE, USE), error=(-0.5, 0.5))
    assert first != second
    assert [first, second] != asked(workload(USE, USE), error=(-0.5, 0.5), seed=2)


def test_at_least_a_step_is_asked_for_of_what_is_used() -> None:
    assert asked(workload((1, 0, 3)), error=(-0.9, -0.9)) == [(1, 0, 1)]


def test_no_more_is_asked_for_than_a_node_has() -> None:
    assert asked(workload((3000, 1024, 900)), error=(0.5, 0.5)) == [(4000, 1536, 1000)]


def test_the_node_is_one_that_holds_the_task() -> None:
    wide = Node(id="w", capacity=(9000, 1024, 1000))
    assert asked(workload((3000, 2048, 100)), wide, NODE, error=(1.0, 1.0)) == [(4000, 4096, 200)]


def test_the_node_is_one_that_the_stage_may_use() -> None:
    large = Node(id="l", capacity=(8000, 8192, 8000), labels={"kind": "large"})
    barred = Node(id="b", capacity=(9000, 9216, 9000), taints=(Taint("mine"),))
    only = Places(terms=((Requirement("kind", "DoesNotExist"),),))
    stage = Stage(name="s", tasks=1, demand=USE, places=only)
    assert asked(workload((3000, 3072, 300), stage=stage), large, barred, NODE, error=(1.0, 1.0)) == [(4000, 4096, 600)]


def test_a_task_that_is_too_large_stays_so() -> None:
    assert asked(workload((5000, 1024, 1)), error=(-0.5, -0.5)) == [(5000, 1024, 1)]


def test_what_is_left_out_is_neither_asked_for_nor_was_before() -> None:
    found = misjudge(workload(USE), [NODE], Asks(error=(0.0, 0.0), without=("memory", "disk")), 1)
    assert found.jobs[0].job.stages[0].demand == (1000, 0, 0)
    assert found.history[0].demand == (1000, 0, 0)


def test_what_is_not_asked_for_may_be_more_than_a_node_has() -> None:
    assert asked(workload((1000, 1024, 5000)), without=("disk",)) == [(1000, 1024, 0)]


def test_who_would_ask_for_nothing_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="job 'j' stage 's' uses memory, disk alone"):
        asked(workload((0, 5, 5)), without=("memory", "disk"))


def test_what_is_not_asked_for_has_to_be_everywhere() -> None:
    bare = Node(id="b", capacity=(4000, 4096, 0))
    with pytest.raises(InvalidParameters, match="uses disk without asking for it, but some nodes have none"):
        asked(workload(USE), bare, NODE, without=("disk",))
    assert asked(workload((1000, 1024, 0)), bare, NODE, without=("disk",)) == [(1000, 1024, 0)]


def test_asks_are_peaks_of_which_tasks_use_half_on_average() -> None:
    found = misjudge(workload(*[USE] * 400), [NODE], Asks(used=(0.0, 1.0)), 1).jobs[0]
    assert {stage.demand for stage in found.job.stages} == {USE}
    assert [fmean(use) for use in zip(*found.usage, strict=True)] == pytest.approx([500, 512, 50], rel=0.1)
    assert min(min(use) for use in found.usage) >= 1
    assert len(set(found.usage)) > 390


def test_peaks_may_be_misjudged_as_well() -> None:
    found = misjudge(workload(USE), [NODE], Asks(error=(0.5, 0.5), used=(0.5, 0.5)), 1).jobs[0]
    assert found.job.stages[0].demand == (1500, 1536, 150)
    assert found.usage == ((500, 512, 50),)


def test_parts_used_are_given_in_order() -> None:
    with pytest.raises(InvalidParameters, match=r"asks: used \[0.9, 0.5\] \(the smaller part first\)"):
        misjudge(workload(USE), [NODE], Asks(used=(0.9, 0.5)), 1)
