"""A network behind the extender of a real kube-scheduler, and the rule that taught the network: the same DagJobs."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.kubernetes.policies import POLICIES, Score, run, score, workload
from devcluster.cluster import Devcluster
from tests.kubernetes.fresh import Fresh

pytestmark = [pytest.mark.controlplane, pytest.mark.drawn(of=4)]

#: Short ones among 20; the network is told of their run times by past runs of the same queries.
QUERIES = ("tpch-q1", "tpch-q14")


@pytest.fixture(scope="module")
def scores(fresh: Fresh, alone: Devcluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Score]:
    """By policy, of the event log; `run` raises an error unless all DagJobs succeed."""
    drawn, found = workload(1000, 20), {}
    jobs = msgspec.structs.replace(drawn, jobs=tuple(each for each in drawn.jobs if each.job.name in QUERIES))
    for label in ("priced", "decima"):
        log = tmp_path_factory.mktemp(label) / "log.jsonl"
        log.write_bytes(run(alone, POLICIES[label], jobs, log.parent / "state"))
        fresh.restore()
        found[label] = score(log)
    return found


def test_all_dagjobs_end(scores: dict[str, Score]) -> None:
    assert {label: len(found.jct_s) for label, found in scores.items()} == {"priced": 2, "decima": 2}


def test_the_log_replays_to_the_same_decisions(scores: dict[str, Score]) -> None:
    """`score` raises LogDiffers otherwise."""
    assert all(found.decided_ms for found in scores.values())


def test_the_network_gave_every_answer_and_the_rule_none(scores: dict[str, Score]) -> None:
    assert scores["decima"].scored == 1.0
    assert scores["priced"].scored is None
