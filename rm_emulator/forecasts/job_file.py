"""Jobs asked about: a file of DagJobs, Jobs or Pods, as `kubectl apply -f` takes it, read as jobs of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator.issues import InvalidInput, Issue, did_you_mean
from rm_emulator.scenario.document import Document, read_documents
from rm_emulator.scenario.load import validate
from rm_emulator.scenario.objects import as_scenario
from rm_emulator.scenario.schema import API_VERSION
from rm_emulator.scenario.workload import build, in_resources
from rm_emulator.workload.model import Workload, WorkloadJob
from schedulers.core.errors import nearest
from schedulers.core.resources import Resources
from schedulers.objects.names import RUN_SECONDS

#: Run time written in place of one that the file does not say; nobody reads the value.
_PLACEHOLDER_S: Final = "60"


def read_jobs(path: Path, scenario: Mapping[str, Any], resources: tuple[str, ...], at_ms: int) -> list[WorkloadJob]:
    """The jobs of a file, submitted at `at_ms`. Their run times are placeholders: nobody knows them yet.

    scenario: of the run, whose cluster and queues the jobs meet. resources: of the run, in order. Raises InvalidInput.
    """
    documents = read_documents(path)
    for document in documents:
        for item in _items(document.data):
            _fill(item)
    spec = {key: value for key, value in scenario["spec"].items() if key in ("cluster", "queues", "policies", "seeds")}
    front = Document(str(path), {"apiVersion": API_VERSION, "kind": "Scenario", "spec": spec}, None)
    document, _ = as_scenario([front, *documents], path)
    workload = build(validate(document, {}).scenario, Path(), 1).workload
    _check_queues(path, workload, scenario["spec"].get("queues") or ())
    if any(job.job.kind == "service" for job in workload.jobs):
        raise InvalidInput([Issue(str(path), "asks about a service, which has no end (expected batch jobs)")])
    if missing := _missing(workload, resources):
        there = ", ".join(resources)
        raise InvalidInput([Issue(str(path), f"asks for {missing}, which no node of the run has (there are: {there})")])
    jobs = in_resources(workload, Resources(resources)).jobs
    return [msgspec.structs.replace(job, submit_ms=at_ms) for job in jobs]


def _check_queues(path: Path, workload: Workload, queues: Sequence[Mapping[str, Any]]) -> None:
    """Raise InvalidInput for a queue that the run does not have, or that has queues below."""
    parents = {queue.get("parent") for queue in queues}
    leaves = [str(queue["name"]) for queue in queues if queue["name"] not in parents]
    for job in workload.jobs:
        queue = job.job.queue
        if leaves and queue not in leaves:
            message = f"job '{job.job.id}' asks for queue '{queue}' (queues of the run for jobs: {', '.join(leaves)})"
            raise InvalidInput([Issue(str(path), message, hint=did_you_mean(nearest(queue, leaves)))])


def _missing(workload: Workload, resources: tuple[str, ...]) -> str:
    """A resource that a job asks for and the run does not have; ''. Every pod counts as one of `pods` by itself."""
    for number, name in enumerate(workload.resources):
        asked = any(stage.demand[number] for job in workload.jobs for stage in job.job.stages)
        if asked and name not in (*resources, "pods"):
            return name
    return ""


def _items(data: Any) -> Iterator[Any]:
    """The objects of a document: itself, or the items of a list."""
    if isinstance(data, dict) and str(data.get("kind", "")).endswith("List"):
        yield from data.get("items") or ()
    else:
        yield data


def _fill(item: Any) -> None:
    """Write a run time where the object has none; a malformed object is left to the reader of objects."""
    try:
        if item["kind"] == "DagJob":
            metas = [stage["template"].setdefault("metadata", {}) for stage in item["spec"]["stages"]]
        elif item["kind"] == "Job":
            metas = [item["spec"]["template"].setdefault("metadata", {})]
        else:
            metas = [item["metadata"]]
        for meta in metas:
            meta.setdefault("annotations", {}).setdefault(RUN_SECONDS, _PLACEHOLDER_S)
    except (AttributeError, KeyError, TypeError):
        return
