"""How good are answers: asked at many moments of a run, by several answerers, and held against the ends that came."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from rm_emulator.engine.containers import Master
from rm_emulator.engine.execution import ListedTimes
from rm_emulator.files import replacing
from rm_emulator.forecasts.answers import QUANTILES, at_quantiles
from rm_emulator.forecasts.arrivals import Recent
from rm_emulator.forecasts.draws import KnownRunTimes, StageBelief
from rm_emulator.forecasts.moment import Paused, PausedRun, paused
from rm_emulator.forecasts.plays import Play, plays
from rm_emulator.forecasts.run_times import LEAST_NOISE, Floats, JudgedBeliefs, Listener
from rm_emulator.results.summary import read_table
from rm_emulator.workload.model import PerTask
from schedulers.core import keyed
from schedulers.core.model import Job, Stage
from schedulers.kit.beliefs import Belief, Part
from schedulers.kit.history import log_variance

#: Answers are asked in this part of the run: at its beginning nothing is known, at its end the cluster runs empty.
_FROM, _TO = 0.2, 0.8
#: The drain rate counts the jobs that ended in so long a part of the run up to the moment.
_WINDOW: Final = 0.1
#: Remaining times below are left out (s): whatever is answered is as good.
LEAST_S: Final = 30.0

#: Columns of `scores`.
_COLUMNS: Final = {
    "job": pl.String, "at_s": pl.Float64, "came_s": pl.Float64, "answerer": pl.String, "p10_s": pl.Float64,
    "p50_s": pl.Float64, "p90_s": pl.Float64,
}  # fmt: skip

#: An answer: the remaining time to the end at each of QUANTILES, s; None where the answerer has no answer.
Quantiles = tuple[float, float, float] | None

#: A law that draws mean run times: of a job of one stage, and of the mean run times (ms) of the runs of its name in
#: history and since, the mixture of normals over ln(mean run time) before any evidence of the job itself.
Law = Callable[[Job, Sequence[float], Sequence[float]], list[Part]]


class Asked(NamedTuple):
    """A question: a live job at a moment of a paused run."""

    run: PausedRun
    job: Master
    ended: Sequence[int]
    """Ends of all jobs up to the moment, ms, ascending."""


def scores(
    folder: Path,
    *,
    label: str,
    seed: int,
    questions: int,
    a_moment: int = 20,
    draws: int = 20,
    arrivals: bool = True,
    law: Law | None = None,
    kept: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> pl.DataFrame:
    """A row per question and answerer: job, at_s, came_s (remaining time that came), answerer, p10_s, p50_s, p90_s.

    questions: how many at least, as far as the run has so many; at most `a_moment` at a moment, since the questions of
    a moment share its plays. draws: of each answer. arrivals: jobs go on to arrive as before the moment; nothing of the
    jobs that really came is known. law: draws the workload. kept: folder where the answers of each moment are kept, so
    that a stopped call goes on; for these settings alone. Answerers: `simulate`; `told`, the same plays with the true
    mean and variation of each stage in place of beliefs; `law`, the same plays by who knows the law; `drain_rate`, the
    jobs before this one over the jobs that ended per second (kueue#14477); `progress`, the elapsed time over the part
    of the tasks that has ended (Spark).
    """
    table = read_table(folder / "runs" / label / str(seed), "jobs", ["id", "submit_ms", "finish_ms"])
    spans = [(submit, end) for _, submit, end in table.iter_rows() if end is not None]
    came = {job: end for job, _, end in table.iter_rows() if end is not None}
    run, random = paused(folder, label, seed), keyed.generator(seed, "questions")
    moments = _moments(spans, questions, a_moment)
    frames = [pl.DataFrame(schema=_COLUMNS)]
    for number, at in enumerate(moments):
        run.advance(at)
        jobs = [job for name, job in run.simulation.jobs.items() if came.get(name, 0) - at >= 1000 * LEAST_S]
        asked = [jobs[index] for index in random.permutation(len(jobs))[:a_moment].tolist()]
        if not asked:
            continue
        if progress is not None:
            progress(f"{label}, seed {seed}: moment {number + 1} of {len(moments)}")
        file = None if kept is None else kept / f"{at}.parquet"
        if file is not None and file.exists():
            frames.append(pl.read_parquet(file))
            continue
        answered = _answers(run, asked, draws, law, arrivals=arrivals)
        frames.append(_rows(answered, {job.name: came[job.name] for job in asked}, at))
        if file is not None:
            with replacing(file) as path:
                frames[-1].write_parquet(path)
    return pl.concat(frames)


def _rows(answered: Iterable[tuple[str, Mapping[str, Quantiles]]], came: Mapping[str, int], at_ms: int) -> pl.DataFrame:
    """The rows of a moment. came: end that came of each job asked about, ms."""
    rows = [
        (job, at_ms / 1000, (end - at_ms) / 1000, answerer, *answer)
        for answerer, answers in answered
        for job, end in came.items()
        if (answer := answers.get(job)) is not None
    ]
    return pl.DataFrame(rows, _COLUMNS, orient="row")


def _moments(spans: Sequence[tuple[int, int]], questions: int, a_moment: int) -> list[int]:
    """The least number of evenly spread moments with so many questions, or one for each question.

    spans: submission and end of each job, ms.
    """
    end, found = max(end for _, end in spans), list[int]()
    for moments in range(-(-questions // a_moment), questions + 1):
        found = [int(end * (_FROM + (_TO - _FROM) * number / moments)) for number in range(moments)]
        live = (sum(submit <= at <= end - 1000 * LEAST_S for submit, end in spans) for at in found)
        if sum(min(a_moment, jobs) for jobs in live) >= questions:
            break
    return found


def _answers(
    run: PausedRun, jobs: Sequence[Master], draws: int, law: Law | None, *, arrivals: bool
) -> Iterator[tuple[str, Mapping[str, Quantiles]]]:
    moment = run.moment()
    assert moment is not None  # nobody is told true run times
    window = run.at_ms // 4
    # Where nobody came for so long, nobody is expected.
    if not arrivals or run.simulation.arrivals.arrived[-1].submit_ms <= run.at_ms - window:
        window = 0
    knowing = {"simulate": moment, "told": _Told(run)}
    if law is not None:
        knowing["law"] = KnownRunTimes(_lawful(run, law), run.at_ms, run.recorded.cell.seed)
    for name, known in knowing.items():
        recent = Recent(run, moment, window)
        yield name, simulated(run, known, recent, [job.name for job in jobs], draws)
    ended = sorted(end for end in run.past.ended.values() if end <= run.at_ms)
    asked = [Asked(run, job, ended) for job in jobs]
    yield "drain_rate", {each.job.name: drain_rate(each) for each in asked}
    yield "progress", {each.job.name: extrapolated(each) for each in asked}


def simulated(
    run: Paused, moment: KnownRunTimes, recent: Recent, jobs: Sequence[str], draws: int
) -> dict[str, Quantiles]:
    """The answer for each of these live jobs by plays; a job that does not end in all of the draws has none."""

    def what(draw: int) -> Callable[[], Play]:
        return lambda: Play(moment.draw(draw), recent.jobs(draw), tuple(jobs), faults=draw)

    courses = list(plays(run.simulation, [what(draw) for draw in range(draws)]))
    found: dict[str, Quantiles] = {}
    for job in jobs:
        ends = [end for course in courses if (end := course[job].finish_ms) is not None]
        if len(ends) == draws:
            low, middle, high = ((end - run.at_ms) / 1000 for end in at_quantiles(ends))
            found[job] = low, middle, high
    return found


class _Told(KnownRunTimes):
    """Told the true mean and variation of each stage, instead of holding beliefs."""

    def __init__(self, run: PausedRun) -> None:
        super().__init__(run.listener, run.at_ms, run.recorded.cell.seed)
        jobs = run.simulation.jobs
        self.stages = [each._replace(belief=_truth(jobs[each.job], each.stage)) for each in self.stages]


def _truth(job: Master, stage: int) -> StageBelief:
    """The true mean and variation, as a belief without doubt."""
    known = job.times[stage]
    assert isinstance(known, ListedTimes)  # measured waves have no run times before an executor is known
    times = known.first
    n, total, squares = len(times), float(sum(times)), float(sum(ms * ms for ms in times))
    noise = max(LEAST_NOISE, log_variance(n, total, squares)[0])
    return certain(total / n, noise)


def certain(mean_ms: float, noise: float) -> StageBelief:
    """A belief without doubt. noise: variance of ln run time among the tasks of the stage."""
    grid: Floats = np.array([math.log(mean_ms)])
    return StageBelief(grid, np.array([noise]), np.array([1.0]), np.array([0.0]), known=True)


class _Lawful(JudgedBeliefs):
    """Beliefs by a law about the means of live stages; about the variation among tasks as before."""

    def __init__(self, beliefs: JudgedBeliefs, laws: Mapping[str, list[Part]]) -> None:
        vars(self).update(vars(beliefs))  # all that was heard, for the variation
        self._laws = laws

    def parts(self, prior: Belief, stage: Stage | None = None) -> list[Part]:
        """By the law for the job that the belief names as its source."""
        return self._laws[prior.source]


def _lawful(run: PausedRun, law: Law) -> Listener:
    """A listener who believes in a law; the evidence of live jobs is what the run's listener heard."""
    past, since = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for old in run.setting.built.workload.history:
        past[old.name].append(old.stages[0][1])
    for source in run.setting.built.workload.jobs:
        times = source.runtimes[0]
        if run.past.ended.get(source.job.id, math.inf) <= run.at_ms and isinstance(times, PerTask):
            since[source.job.name].append(float(np.mean(times.ms)))
    listener, live = copy.copy(run.listener), run.listener.state.jobs
    priors = run.listener.priors
    laws = {job: law(live[job].spec, past[live[job].spec.name], since[live[job].spec.name]) for job in priors}
    listener.priors = {
        job: [prior._replace(source=job, known=True) for prior in stages] for job, stages in priors.items()
    }
    listener.beliefs = _Lawful(run.listener.beliefs, laws)
    return listener


def drain_rate(asked: Asked) -> Quantiles:
    """The number of jobs up to the job asked about, over the number of jobs that ended per second of late."""
    run = asked.run
    since = run.at_ms * (1 - _WINDOW)
    ended = sum(end > since for end in asked.ended)
    before = sum(job.source.submit_ms < asked.job.source.submit_ms for job in run.simulation.jobs.values())
    return drained(before + 1, ended, run.at_ms * _WINDOW / 1000)


def drained(jobs: int, ended: int, window_s: float) -> Quantiles:
    """Time until so many jobs have ended, at the rate at which `ended` jobs have in the last window_s."""
    if not ended:
        return None
    rest = jobs * (window_s / ended)
    return rest, rest, rest


def extrapolated(asked: Asked) -> Quantiles:
    """The elapsed time of the job, times the tasks left over the tasks that have ended."""
    job = asked.job
    if job.first_start_ms is None:
        return None
    ended = sum(stage.finished for stage in job.state.stages)
    return progressed((asked.run.at_ms - job.first_start_ms) / 1000, ended, job.source.job.tasks)


def progressed(elapsed_s: float, ended: int, tasks: int) -> Quantiles:
    """The elapsed time since the first start, times the tasks left over the tasks that have ended."""
    if not ended or ended >= tasks:
        return None
    rest = elapsed_s * (tasks - ended) / ended
    return rest, rest, rest


def pinball(came: Floats, answers: Floats) -> float:
    """Mean pinball loss over QUANTILES, s. came: [N]; answers: [N, 3]."""
    return float(pinballs(came, answers).mean())


def pinballs(came: Floats, answers: Floats) -> Floats:
    """Pinball loss of each answer, mean over QUANTILES, s, [N]. came: [N]; answers: [N, 3]."""
    off = came[:, None] - answers
    levels = np.array(QUANTILES)
    losses: Floats = np.maximum(levels * off, (levels - 1) * off).mean(axis=1)
    return losses
