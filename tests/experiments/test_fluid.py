"""Ideal water-filling of a workload over time, worked out by hand. A cluster of 4 CPUs; times in ms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.experiments.fluid import FluidJob, FluidStage, finish_times, split
from rm_emulator.results.water_filling import SharedQueue, SharingTree


def job(queue: str, *stages: FluidStage, submit_ms: int = 0, weight: float = 1.0) -> FluidJob:
    return FluidJob(queue=queue, submit_ms=submit_ms, stages=stages, weight=weight)


def tasks(count: int, ms: float, *parents: int, demand: tuple[int, ...] = (1,)) -> FluidStage:
    return FluidStage(demand, (float(ms),) * count, parents)


def finished(*jobs: FluidJob, queues=(), capacity=(4,), **more) -> list[float | None]:
    leaves = sorted({j.queue for j in jobs})
    found = finish_times(jobs, SharingTree(queues, leaves, len(capacity)), capacity, **more)
    return [None if at is None else round(at, 3) for at in found]


def test_a_job_that_fits_takes_its_longest_path():
    assert finished(job("a", tasks(2, 100), tasks(3, 50, 0), tasks(1, 10, 0, 1))) == [160.0]


def test_tasks_that_do_not_fit_share_the_cluster():
    # 8 tasks on 4 CPUs run at half speed
    assert finished(job("a", tasks(8, 100))) == [200.0]


def test_short_tasks_leave_room_for_long_ones():
    # 8 tasks at half speed until the four short ones are done at 100; then the others, half done, at full speed
    stage = FluidStage((1,), (50.0,) * 4 + (100.0,) * 4)
    assert finished(job("a", stage)) == [150.0]


def test_two_queues_have_half_each():
    # both at half speed until b is done at 200; a is 8 x 100 of which a half was done by then: 4 CPUs at rate 1/2
    # a: 8 tasks on 2 CPUs run at 1/4 for 200 ms, then on 4 CPUs at 1/2 for 100 ms
    assert finished(job("a", tasks(8, 100)), job("b", tasks(4, 100))) == [300.0, 200.0]


def test_weights_count():
    # a has 3 CPUs for its 6 tasks, b 1 CPU for its 2: both run at half speed
    queues = [SharedQueue(name="a", weight=3)]
    assert finished(job("a", tasks(6, 100)), job("b", tasks(2, 100)), queues=queues) == [200.0, 200.0]


def test_an_arrival_slows_the_others_from_then_on():
    # a alone is done with half of its work at 50; from then on it has 2 CPUs of 4
    assert finished(job("a", tasks(4, 100)), job("b", tasks(4, 100), submit_ms=50)) == [150.0, 200.0]


def test_a_maximum_slows_a_queue_that_is_alone():
    assert finished(job("a", tasks(4, 100)), queues=[SharedQueue(name="a", limit=(0.5,))]) == [200.0]


def test_a_queue_that_may_have_nothing_never_ends():
    queues = [SharedQueue(name="a", limit=(0.0,))]
    assert finished(job("a", tasks(1, 100)), job("b", tasks(1, 100)), queues=queues) == [None, 100.0]


def test_jobs_of_a_queue_share_what_it_has():
    # each 2 CPUs: the narrow one runs at full speed, the wide one has what is left
    narrow, wide = finished(job("a", tasks(2, 100)), job("a", tasks(6, 100)))
    assert narrow == 100.0
    assert wide == 200.0  # 6 tasks: 1/3 of 100 ms by then, the other 400 ms of work on 4 CPUs


def test_jobs_of_a_queue_share_by_weight():
    assert finished(job("a", tasks(6, 100), weight=3.0), job("a", tasks(2, 100))) == [200.0, 200.0]


def test_faster_nodes_run_everything_faster():
    assert finished(job("a", tasks(8, 100)), speed=2.0) == [100.0]


def test_the_example_of_drf_runs_at_its_shares():
    # NSDI'11, section 4.1: of 9 CPU and 18 GB, tasks of <1, 4> get 3 of 3 and tasks of <3, 1> 2 of 4
    found = finished(job("a", tasks(3, 100, demand=(1, 4))), job("b", tasks(4, 100, demand=(3, 1))), capacity=(9, 18))
    # b has 9 - 3 CPUs while a runs, at rate 1/2; then 9 CPUs for 12, at 3/4
    assert found[0] == 100.0
    assert found[1] == pytest.approx(100 + 50 / 0.75, abs=0.001)


def test_stages_of_no_time_are_passed():
    assert finished(job("a", tasks(1, 0), tasks(1, 0, 0), tasks(1, 5, 1))) == [5.0]
    assert finished(job("a", tasks(1, 0), submit_ms=3)) == [3.0]


def test_few_steps_are_nearly_as_good():
    jobs = [job("ab"[i % 2], tasks(5, 97 + i), submit_ms=40 * i) for i in range(40)]
    exact, rough = finished(*jobs), finished(*jobs, steps=60)
    # 40 jobs x 5 tasks of about 117 ms on 4 CPUs: 5,850 ms, a 60th of which is 97
    assert np.abs(np.array(exact) - np.array(rough)).max() < 3 * 97


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.integers(1, 50), st.integers(0, 60)), min_size=1)
)
@settings(max_examples=40, deadline=None)
def test_nobody_is_faster_than_the_cluster(rows):
    jobs = sorted((job(q, tasks(n, ms), submit_ms=at) for q, n, ms, at in rows), key=lambda j: j.submit_ms)
    ends = finished(*jobs)
    assert all(end >= j.submit_ms + j.stages[0].times_ms[0] - 0.001 for j, end in zip(jobs, ends, strict=True))
    work = sum(sum(j.stages[0].times_ms) for j in jobs)
    assert max(ends) - jobs[0].submit_ms >= work / 4 - 0.001
    # nothing idles while work waits: alone on the cluster from the last arrival on, it would take so long at most
    longest = max(j.stages[0].times_ms[0] for j in jobs)
    assert max(ends) <= jobs[-1].submit_ms + work / 4 + longest + 0.001


def test_a_split_goes_on_with_those_who_do_not_ask_for_what_is_used_up():
    # cpu: two jobs want 0.6 of 0.5 each; the third wants memory alone
    asked = np.array([[0.6, 0.0], [0.6, 0.0], [0.0, 0.8]])
    assert split(asked, np.ones(3), np.array([0.5, 1.0])).tolist() == pytest.approx([0.25 / 0.6, 0.25 / 0.6, 1.0])


def test_a_split_fills_the_small_first():
    asked = np.array([[0.1], [0.6], [0.6]])
    assert (split(asked, np.ones(3), np.array([0.5]))[:, None] * asked)[:, 0].tolist() == pytest.approx([0.1, 0.2, 0.2])
