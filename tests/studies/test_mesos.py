"""Frameworks that share a cluster, and that wait for their input, on short runs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from studies import mesos

SHORT_S = 600


@cache
def sharing(shared: bool) -> mesos.Shared:
    return mesos.measure_sharing(shared, SHORT_S, 1)


def test_frameworks_have_work_for_half_of_the_cluster() -> None:
    end_s = 40 * 1800
    work = sum(
        stage.tasks * mesos.FRAMEWORKS[each.job.queue].task_s
        for each in mesos.frameworks(1, end_s).jobs
        for stage in each.job.stages
    )
    assert work / (end_s * mesos.MACHINES * mesos.CORES) == pytest.approx(0.5, rel=0.1)


@pytest.mark.drawn(of=4)
def test_both_clusters_meet_the_same_jobs() -> None:
    assert sharing(False).jobs == sharing(True).jobs


def test_sharing_uses_more_of_the_cluster_while_tasks_wait() -> None:
    assert sharing(True).used > sharing(False).used


def test_spans_are_counted_by_the_second() -> None:
    assert mesos._each_second(np.array([[0, 2000], [500, 3000]]), 4).tolist() == [1, 2, 1, 0, 0]


@pytest.mark.drawn(of=4)
def test_a_static_partition_reads_little_from_its_own_nodes() -> None:
    alone = mesos.measure_locality("static partition", 120, 1)
    assert alone.local < mesos.measure_locality("sharing, no delay", 120, 1).local
