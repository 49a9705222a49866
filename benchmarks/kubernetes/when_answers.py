"""How good is `status.expected`: DagJobs of a foreign mix on a real control plane with fake kubelets.

`python -m benchmarks.kubernetes.when_answers --out FILE` runs the mix once, takes the answer of each live job every
30 s, and prints how the answers fared against the ends that came. FILE has a JSON line for each job, task, answer and
end, written as they come; FILE.memories has the brain's memory at each moment, for the answerers that are asked later.
A FILE that is whole is scored and not measured again; the file of a run that was interrupted is in the way. Several
files have runs of as many seeds, which are scored together.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from benchmarks.kubernetes.when_load import LoadedJob, dagjob_of, load, nodes_for, run_of
from benchmarks.kubernetes.when_scores import Answered, Ended, Line, Ran, Whole, lines_of, page
from devcluster.cluster import Devcluster
from devcluster.deployments import Running
from devcluster.installation import MANIFESTS, apply_crds, running
from forecaster.memory import read_memory
from operators.cache.reflector import Change, Kind, Reflector
from operators.client import ApiError, Client, NotFound, path_of, wall_ms
from rm_emulator.issues import InvalidInput
from rm_emulator.program import end
from schedulers.objects import names
from schedulers.objects.dagjob import DagJobOf
from schedulers.objects.meta import to_ms
from schedulers.objects.pod import Pod

_CPUS: Final = 8
#: Between two moments at which answers are taken.
_EVERY_S: Final = 30.0
#: Admission hears of new kinds a moment after they are made.
_ADMITTED_S: Final = 60.0


class Course:
    """One run of the mix."""

    def __init__(self, client: Client, space: str, jobs: list[LoadedJob], seed: int, out: Path) -> None:
        self._client, self._space, self._seed, self._out = client, space, seed, out
        self._jobs = {job.name: job for job in jobs}
        self._pods: asyncio.Queue[Pod] = asyncio.Queue()
        self._ended: set[str] = set()

    async def run(self, longest_s: float) -> None:
        """Until all jobs have ended, or so long."""
        kind = Kind("Pod", Pod, f"/api/v1/namespaces/{self._space}/pods")
        began = time.monotonic()
        for job in self._jobs.values():
            self._write(job)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(Reflector[Pod](self._client, kind, self._hear).run()),
                group.create_task(self._tell_kubelets()),
                group.create_task(self._submit()),
            ]
            while len(self._ended) < len(self._jobs) and time.monotonic() < began + longest_s:
                await asyncio.sleep(_EVERY_S - (time.monotonic() - began) % _EVERY_S)
                await self._take()
                _say(f"{time.monotonic() - began:4.0f} s: {len(self._ended)} of {len(self._jobs)} jobs have ended")
            for task in tasks:
                task.cancel()

    def _write(self, line: Line) -> None:
        _append(self._out, line)

    async def _submit(self) -> None:
        began = time.monotonic()
        for job in self._jobs.values():
            await asyncio.sleep(max(0.0, began + job.at_s - time.monotonic()))
            await self._create(dagjob_of(job, self._space))

    async def _create(self, body: dict[str, Any]) -> None:
        until = time.monotonic() + _ADMITTED_S
        while True:
            try:
                await self._client.create(f"/apis/{names.API_VERSION}/namespaces/{self._space}/dagjobs", body)
                return
            except ApiError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.5)

    def _hear(self, change: Change) -> None:
        """Of a pod: a new one has yet to be told how long its task takes."""
        pod: Pod | None = change.new
        if pod is None or names.DAGJOB_LABEL not in pod.metadata.labels:
            return
        if change.old is None:
            self._pods.put_nowait(pod)
        elif pod.is_terminal and not change.old.is_terminal:
            began, over = pod.started_ms, pod.finished_ms
            if began is not None and over is not None:
                code, (job, stage, index) = pod.exit_code or 0, _task(pod)
                self._write(Ran(job, stage, index, pod.attempt, began, (over - began) / 1000, code))

    async def _tell_kubelets(self) -> None:
        """Replace what the pod template claims by how long the task takes, before the pod has run for long."""
        while True:
            pod = await self._pods.get()
            job, stage, index = _task(pod)
            seconds, code = run_of(self._seed, self._jobs[job], stage, index, pod.attempt)
            annotations = {names.RUN_SECONDS: str(seconds), names.EXIT_CODE: str(code)}
            try:
                await self._client.patch(
                    path_of("Pod", pod.key), {"metadata": {"annotations": annotations}}, kind="merge"
                )
            except NotFound:
                continue

    async def _take(self) -> None:
        """The answers of this moment, and the jobs that have ended since the last."""
        at = wall_ms()
        listed = await self._client.get(f"/apis/{names.API_VERSION}/namespaces/{self._space}/dagjobs")
        memory = await read_memory(self._client, names.NAMESPACE)
        if memory is not None:
            _append(_memories(self._out), (at, memory.config_maps))
        for item in listed["items"]:
            job = msgspec.convert(item, DagJobOf[dict[str, Any]])
            name, status = job.metadata.name, job.status
            created = job.metadata.created_ms
            if name in self._ended or created is None:
                continue
            if job.is_over:
                self._ended.add(name)
                over = to_ms(status.completionTime)
                assert over is not None
                self._write(Ended(name, created, over, succeeded=job.has_succeeded))
                continue
            began = to_ms(status.startTime)
            core = f"{job.key}.{job.metadata.uid[:8]}"
            self._write(Answered(at, name, core, created, began, status.tasks, status.succeeded, status.expected))


def _task(pod: Pod) -> tuple[str, int, int]:
    """(Job, number of the stage, index) of a pod."""
    labels = pod.metadata.labels
    return labels[names.DAGJOB_LABEL], int(labels[names.STAGE_LABEL][1:]), int(labels[names.INDEX_LABEL])


def _memories(out: Path) -> Path:
    return out.with_name(f"{out.name}.memories")


def _append(file: Path, line: object) -> None:
    """In one write, so that a line is there or not."""
    with file.open("ab", buffering=0) as stream:
        stream.write(msgspec.json.encode(line) + b"\n")


@contextmanager
def _installed(nodes: int) -> Iterator[Devcluster]:
    """A control plane of its own, with brain, controllers and forecaster as in the overlay `dev`."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = Devcluster(Path(folder) / "cluster")
        stack.callback(cluster.remove)
        cluster.up(nodes=nodes, cpu=str(_CPUS), reserved=True)
        apply_crds(cluster)
        overlay = Path(folder).resolve() / "overlay"
        overlay.mkdir()
        resources = os.path.relpath(MANIFESTS / "overlays" / "dev", overlay)
        components = os.path.relpath(MANIFESTS / "components" / "forecaster", overlay)
        above = {"resources": [resources], "components": [components]}
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(above))
        cluster.apply(overlay)
        stack.enter_context(running(cluster))
        forecaster = Running(cluster, "rm-forecaster")
        stack.callback(forecaster.stop)
        forecaster.wait_ready()
        yield cluster


def measure(out: Path, mix: list[LoadedJob], *, seed: int, longest_min: float, over: float) -> None:
    """Run the mix once into `out`."""
    _memories(out).unlink(missing_ok=True)
    nodes = nodes_for(mix, cpus=_CPUS, load=over)
    tasks = sum(stage.tasks for job in mix for stage in job.stages)
    _say(f"{len(mix)} jobs, {tasks} tasks, {nodes} nodes of {_CPUS} CPU")

    async def run(cluster: Devcluster, space: str) -> None:
        async with cluster.client() as client:
            await Course(client, space, mix, seed, out).run(60 * longest_min)

    with _installed(nodes) as cluster:
        asyncio.run(run(cluster, cluster.namespace("when")))
    _append(out, Whole(nodes, _CPUS, seed))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> None:
    """Measure what is not measured yet, and print the tables. Raises InvalidInput."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kubernetes.when_answers", description=__doc__)
    whole = "the files of lines, one for each seed; one that is whole is only scored"
    parser.add_argument("--out", type=Path, nargs="+", required=True, metavar="FILE", help=whole)
    parser.add_argument("--jobs", type=int, default=60, help="DagJobs (default: 60)")
    parser.add_argument("--long", type=int, default=14, help="long DagJobs beside these (default: 14)")
    parser.add_argument("--minutes", type=float, default=6, help="in which they arrive (default: 6)")
    parser.add_argument("--longest", type=float, default=30, help="minutes after which the run is over (default: 30)")
    parser.add_argument("--load", type=float, default=1.4, help="arriving work over room (default: 1.4)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first run's mix; the next run has the next (default: 1)"
    )
    asked = parser.parse_args()
    for name, least in (("jobs", 1), ("long", 0), ("minutes", 0.1), ("longest", 0.1), ("load", 0.01)):
        if (seen := getattr(asked, name)) < least:
            raise InvalidInput(f"--{name} {seen:g}: must be {least} or more")
    for seed, out in enumerate(asked.out, start=asked.seed):
        if not out.exists():
            mix = load(asked.jobs, asked.long, asked.minutes, seed)
            measure(out, mix, seed=seed, longest_min=asked.longest, over=asked.load)
    sys.stdout.write(page([(lines_of(out), _memories(out)) for out in asked.out], _say))


if __name__ == "__main__":
    end(main)
