"""Jobs that are chains of stages, each a whole job of a single stage, as SLearn makes GTrace19-DAG.

"The number of stages in DAGs [...] was randomly chosen to be between 2-5 and each stage is a complete job from the
Google 2019 trace. The jobs that are part of the same DAG have the same jobname and the same username" (Jajoo et al.,
SLearn, NSDI 2022, section 6). So a chain is made of runs of one name, the next ones in order of arrival.

Where the paper is silent: the DAG is a chain, and a stage waits for the whole stage before; the number of stages is the
name's, so that history knows every stage; a chain arrives when its first run would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from rm_emulator.workload import extraction, synthetic
from rm_emulator.workload.model import Workload, WorkloadJob
from rm_emulator.workload.synthetic import SLOTS, Preset
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import PastJob

#: Runs drawn for each stage of a job: the last runs of a name may be too few for a chain.
_RUNS: Final = 1.25
_Run = TypeVar("_Run", WorkloadJob, PastJob)


def generate(
    knobs: Preset,
    stages: Sequence[int],
    *,
    jobs: int = 1250,
    load: float | None = None,
    slots: int = SLOTS,
    seed: int = 1,
    history: bool = True,
) -> Workload:
    """Jobs like the preset's, each a chain of runs of its name, and chains of the same names in the history.

    stages: least and largest number of runs in a chain. The other arguments, and what may be raised, are those of
    `synthetic.generate`.
    """
    least, most = stages
    if not 1 <= least <= most:
        raise InvalidParameters(f"stages {list(stages)}: expected least and most, from 1 on")
    if jobs < 1 or (load is not None and not 0 < load < math.inf):
        raise InvalidParameters(f"jobs {jobs}, load {load}: both must be above 0")
    each = (least + most) / 2
    longer = msgspec.structs.replace(
        knobs, runs_per_name=each * knobs.runs_per_name, past_runs=round(each * knobs.past_runs)
    )

    # A name has as many runs whatever the length of its chains: twice the length makes half as many chains.
    even = [n for n in range(least, most + 1) for _ in range(n)]

    def length(name: str) -> int:
        return even[int(keyed.uniform(seed, "chain", name) * len(even))]

    runs, made = jobs * each, list[WorkloadJob]()
    while len(made) < jobs:
        runs *= _RUNS
        singles = synthetic.generate(longer, jobs=math.ceil(runs), slots=slots, seed=seed, history=history)
        made = _chains(singles.jobs, lambda run: run.job.name, length, _chain)
    digits = len(str(jobs - 1))
    named = [
        msgspec.structs.replace(job, job=msgspec.structs.replace(job.job, id=f"job-{index:0{digits}d}"))
        for index, job in enumerate(sorted(made, key=lambda job: job.submit_ms)[:jobs])
    ]
    past = _chains(singles.history, lambda run: run.name, length, _past)
    return msgspec.structs.replace(
        singles,
        jobs=extraction.at_load(named, knobs.window_load if load is None else load, slots),
        history=tuple(sorted(past, key=lambda job: (job.finished, job.name))),
    )


def _chains(
    runs: Iterable[_Run],
    name: Callable[[_Run], str],
    length: Callable[[str], int],
    chain: Callable[[Sequence[_Run]], _Run],
) -> list[_Run]:
    """Runs of a name, as many at a time as the name's chains are long; the last ones are left out if too few."""
    alike: dict[str, list[_Run]] = {}
    for run in runs:
        alike.setdefault(name(run), []).append(run)
    parts = ((each, length(key)) for key, each in alike.items())
    return [chain(each[at : at + n]) for each, n in parts for at in range(0, len(each) - n + 1, n)]


def _chain(runs: Sequence[WorkloadJob]) -> WorkloadJob:
    first = runs[0]
    stages = tuple(
        msgspec.structs.replace(run.job.stages[0], name=f"stage-{index}", parents=(index - 1,) if index else ())
        for index, run in enumerate(runs)
    )
    job = msgspec.structs.replace(first.job, stages=stages)
    return msgspec.structs.replace(first, job=job, runtimes=tuple(run.runtimes[0] for run in runs))


def _past(runs: Sequence[PastJob]) -> PastJob:
    """From the first submission, or the time that the stages need one after another, to the last end."""
    stages, end = tuple(run.stages[0] for run in runs), max(run.finished for run in runs)
    took = math.ceil(sum(ms for _, ms in stages))
    began = min(runs[0].submitted, end - took)
    return msgspec.structs.replace(runs[0], submitted=began, finished=end, stages=stages)
