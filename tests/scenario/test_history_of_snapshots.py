"""A snapshot of a cluster takes run times from the history of its brain where pods say nothing."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rm_emulator.scenario import live
from rm_emulator.scenario.load import load
from schedulers.core.model import PastJob
from schedulers.objects.memory import HISTORY
from schedulers.objects.names import RECURRING_LABEL, USER_LABEL
from tests.forecasts.memories import config_maps

NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
NODE["status"] = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}


def dagjob(name: str, recurring: str, user: str = "ann", **stage: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    stages = [{"name": each, "tasks": 2, "template": copy.deepcopy(template), **stage} for each in ("map", "reduce")]
    labels = {RECURRING_LABEL: recurring, USER_LABEL: user}
    meta = {"name": name, "namespace": "a", "labels": labels, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "rm-emulator.io/v1alpha1", "kind": "DagJob", "metadata": meta, "spec": {"stages": stages}}


def run(name: str, *means_s: float, user: str = "ann") -> PastJob:
    return PastJob(name=name, user=user, submitted=0, finished=9, stages=tuple((2, 1000 * mean) for mean in means_s))


HISTORY_OF_ETL = (
    *(run("etl", mean, 7.0) for mean in (10.0, 20.0, 30.0)),
    run("etl", 99.0),  # of the time when the job had a single stage
    run("etl", 99.0, 99.0, user="bob"),
    run("", 99.0, 99.0),
)


def stored(*jobs: PastJob) -> list[dict[str, Any]]:
    return config_maps(HISTORY, msgspec.msgpack.encode(jobs))


def taken(
    memory: list[dict[str, Any]], *dagjobs: dict[str, Any], pods: tuple[dict[str, Any], ...] = ()
) -> live.Snapshot:
    return live.of([NODE], [], list(dagjobs), list(pods), others={"ConfigMap": memory})


def seconds(snapshot: live.Snapshot, job: str) -> list[str | None]:
    """The run time of each stage, as its annotation holds one."""
    (made,) = (item for item in snapshot.objects if item["kind"] == "DagJob" and item["metadata"]["name"] == job)
    stages = made["spec"]["stages"]
    return [
        (each["template"].get("metadata", {}).get("annotations") or {}).get("rm-emulator.io/run-seconds")
        for each in stages
    ]


def test_a_recurring_job_runs_as_long_as_the_runs_of_its_user_and_name_did_stage_by_stage() -> None:
    snapshot = taken(stored(*HISTORY_OF_ETL), dagjob("etl-4", "etl"), dagjob("etl-5", "etl"), dagjob("new", "other"))
    # Means of 10, 20 and 30 s: mean 20 s, deviation 10 s; those of the second stage do not differ.
    assert seconds(snapshot, "etl-4") == ["lognormal(20.000, 0.500)", "7.000"]
    assert seconds(snapshot, "new") == [None, None]
    notes = "\n".join(snapshot.notes)
    assert "a/etl-4 stage map: run time lognormal(20.000, 0.500) s from 3 runs of 'etl' of user 'ann' in" in notes
    assert "the brain's history tells the run times of 2 jobs" in notes


def test_a_hint_says_less_than_history_and_an_annotation_more() -> None:
    hinted = dagjob("hinted", "etl", hints={"durationSeconds": 5})
    noted = dagjob("noted", "etl")
    for stage in noted["spec"]["stages"]:
        stage["template"]["metadata"] = {"annotations": {"rm-emulator.io/run-seconds": "3"}}
    snapshot = taken(stored(*HISTORY_OF_ETL), hinted, noted)
    assert seconds(snapshot, "hinted")[1] == "7.000"
    assert seconds(snapshot, "noted") == ["3", "3"]


def test_ended_pods_say_more_than_history() -> None:
    labels = {"rm-emulator.io/dagjob": "etl-4", "rm-emulator.io/stage": "map"}
    times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:04Z"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a", "labels": labels},
        "spec": {"containers": []},
        "status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": times}}]},
    }
    assert seconds(taken(stored(*HISTORY_OF_ETL), dagjob("etl-4", "etl"), pods=(pod,)), "etl-4") == ["4.000", "7.000"]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_history_that_is_not_whole_is_noted_and_left_out(lost: int) -> None:
    memory = stored(*HISTORY_OF_ETL)
    memory[lost] = {**memory[lost], "data": {"index": "{"}, "binaryData": {}}
    snapshot = taken(memory, dagjob("etl-4", "etl"))
    assert seconds(snapshot, "etl-4") == [None, None]
    assert any("the brain's history is not whole and is left out" in note for note in snapshot.notes)


def test_the_file_is_read_back_with_the_run_times_and_the_note(tmp_path: Path) -> None:
    snapshot = taken(stored(*HISTORY_OF_ETL), dagjob("etl-4", "etl"))
    path = tmp_path / "live.yaml"
    path.write_text(snapshot.text())
    assert "the brain's history tells the run times of 1 job" in load(path).notes
