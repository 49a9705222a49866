"""What holds for every registered predictor: state survives a dump, nothing grows, nothing depends on the process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from schedulers.core import keyed
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.predictor import FinishedTask, Predictor, predictors

KINDS = [entry.name for entry in predictors]
DAY_MS = 86_400_000


def make(kind: str) -> Predictor:
    cls, params = predictors.parse({"kind": kind})
    return cls(params, seed=5)


def past(count: int = 60) -> list[PastJob]:
    return [
        PastJob(
            name=f"n{n % 5}",
            user=f"u{n % 3}",
            app=f"a{n % 2}",
            demand=(1000, 1024),
            submitted=n * 3_600_000,
            finished=n * 3_600_000 + 60_000,
            stages=((4, 1000.0 * (1 + n % 5) + 37 * (n % 7)), (2, 500.0 + n)),
        )
        for n in range(count)
    ]


def some_job(n: int) -> Job:
    first = Stage(name="map", tasks=1 + n % 40, demand=(1000, 1024))
    second = Stage(name="reduce", tasks=1 + n % 3, demand=(500, 2048), parents=(0,))
    stages = (first, second) if n % 2 else (first,)
    return Job(id=f"j{n}", name=f"n{n % 5}", user=f"u{n % 3}", app=f"a{n % 2}", stages=stages)


def live(predictor: Predictor, numbers: range, *, cancel: bool = True) -> list[Any]:
    """Run jobs one after the other, two of them open at any time; returns every answer on the way."""
    answers: list[Any] = []
    open_jobs: list[Job] = []
    for n in numbers:
        spec, at = some_job(n), 60 * 3_600_000 + n * 7_200_000
        if n % 4 == 0:
            predictor.hear_estimates(spec.id, [100 + n] * len(spec.stages))
        plan = predictor.submitted(spec, at)
        answers += [plan, [predictor.estimate(spec.id, s) for s in range(len(spec.stages))]]
        open_jobs.append(spec)
        pilots = set(plan.pilots) if plan else set()
        for stage, task in sorted(pilots):
            predictor.finished(FinishedTask(spec.id, stage, task, True), 900 + 11 * task, 1.5, at + 1)
        answers.append([predictor.estimate(spec.id, s) for s in range(len(spec.stages))])
        if len(open_jobs) > 1:
            end(predictor, open_jobs.pop(0), pilots_ran=True, at=at + 2, cancel=cancel and n % 6 == 0)
    return answers


def end(predictor: Predictor, spec: Job, *, pilots_ran: bool, at: int, cancel: bool) -> None:
    if cancel:
        predictor.job_gone(spec, at)
        return
    for index, stage in enumerate(spec.stages):
        for task in range(stage.tasks):
            ms = 500 + int(1000 * keyed.uniform(1, "test", spec.id, index, task))
            predictor.finished(FinishedTask(spec.id, index, task, False), ms, 1.0, at)
    predictor.job_done(spec, at)


def through_msgpack(data: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(data))


@pytest.mark.parametrize("kind", KINDS)
def test_behaviour_after_load_is_the_same(kind: str) -> None:
    one = make(kind)
    one.prime(past())
    live(one, range(25))
    other = make(kind)
    other.load(through_msgpack(one.dump()))
    assert live(one, range(25, 90)) == live(other, range(25, 90))


@pytest.mark.parametrize("kind", KINDS)
def test_dump_of_what_was_loaded_is_the_same(kind: str) -> None:
    one = make(kind)
    one.prime(past())
    live(one, range(25))
    data = msgspec.msgpack.encode(one.dump())
    other = make(kind)
    other.load(msgspec.msgpack.decode(data))
    assert msgspec.msgpack.encode(other.dump()) == data


@pytest.mark.parametrize("kind", KINDS)
def test_a_dump_is_not_changed_by_what_comes_after(kind: str) -> None:
    predictor = make(kind)
    predictor.prime(past())
    live(predictor, range(10))
    dump = predictor.dump()
    before = msgspec.msgpack.encode(dump)
    live(predictor, range(10, 40))
    assert msgspec.msgpack.encode(dump) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_memory_does_not_grow_with_finished_jobs(kind: str) -> None:
    def size(jobs: int) -> int:
        predictor = make(kind)
        specs = [some_job(n) for n in range(jobs)]
        for n, spec in enumerate(specs):
            at = n * DAY_MS // 4
            predictor.hear_estimates(spec.id, [1] * len(spec.stages))
            predictor.submitted(spec, at)
            end(predictor, spec, pilots_ran=False, at=at, cancel=n % 5 == 0)
        return len(msgspec.msgpack.encode(predictor.dump()))

    assert size(1200) < 1.3 * size(600) + 100


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_jobs_are_nobody(kind: str) -> None:
    predictor = make(kind)
    predictor.finished(FinishedTask("nobody", 0, 0, False), 5, 1.0, 0)
    predictor.job_done(some_job(1), 0)
    predictor.job_gone(some_job(2), 0)
    assert predictor.estimate("nobody", 0) is None


@pytest.mark.parametrize("kind", KINDS)
def test_pilots_are_tasks_of_the_job(kind: str) -> None:
    predictor = make(kind)
    predictor.prime(past())
    for n in range(80):
        spec = some_job(n)
        plan = predictor.submitted(spec, n)
        for stage, task in plan.pilots if plan else ():
            assert 0 <= task < spec.stages[stage].tasks


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_is_described(kind: str) -> None:
    assert all(p.description for p in predictors.entry(kind).parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_every_predictor_names_its_source(kind: str) -> None:
    assert predictors.entry(kind).source


SCRIPT = """
import hashlib, importlib.util, sys
spec = importlib.util.spec_from_file_location("shared", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for kind in module.KINDS:
    predictor = module.make(kind)
    predictor.prime(module.past())
    print(kind, hashlib.sha256(repr(module.live(predictor, range(40))).encode()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_answers_do_not_depend_on_the_hash_seed() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT, __file__],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(said) == 1
