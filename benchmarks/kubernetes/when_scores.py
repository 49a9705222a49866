"""How the answers taken from DagJobs fared against the ends that came, beside others who are asked the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from benchmarks.kubernetes.when_load import LoadedJob
from benchmarks.rows import aligned
from rm_emulator.forecasts.arrivals import Recent
from rm_emulator.forecasts.draws import KnownRunTimes
from rm_emulator.forecasts.moment import Paused
from rm_emulator.forecasts.present import paused_present, present_of
from rm_emulator.forecasts.scoring import LEAST_S, Quantiles, certain, drained, pinball, progressed, simulated
from rm_emulator.issues import InvalidInput
from schedulers.core import keyed
from schedulers.objects.dagjob import ExpectedStatus
from schedulers.objects.meta import to_ms

#: Who answers: the forecaster in the status; the same plays asked at the moment itself; the same, told the truth; and
#: two simple rules.
ANSWERERS: Final = ("status", "simulate", "told", "drain_rate", "progress")
#: Those with an interval.
_WITH_INTERVAL: Final = ANSWERERS[:3]
#: Remaining times that came, s.
HORIZONS: Final[Mapping[str, tuple[float, float]]] = {
    "30 s to 1 min": (LEAST_S, 60),
    "1 to 5 min": (60, 300),
    "5 to 20 min": (300, 1200),
}
HEAD: Final = (
    "came in",
    "answerer",
    "answers",
    "80 % holds, %",
    "later, %",
    "loss, s",
    "over told's",
    "median error, %",
)
#: The drain rate counts the jobs that ended in so long before the moment, s.
_WINDOW_S: Final = 120.0
_DRAWS: Final = 20
_BOOTSTRAPS: Final = 2000
_LEGEND: Final = """\
status: the answer as written; simulate: the same plays from the brain's memory of the moment; told: these plays with
the true mean and variation of each stage, retries included; drain_rate, progress: a time and no interval.
first, again: whether a run of the same name had ended; arrivals, none more: whether further jobs were to arrive.
later: of the ends, the share that came later than the median answered (right: 50).
"""


class Ran(msgspec.Struct, frozen=True, tag="ran"):
    """An attempt at a task that has ended, by the stamps of its pod."""

    job: str
    stage: int
    index: int
    attempt: int
    began_ms: int
    seconds: float
    code: int


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """A live job at a moment with its answer. core: the job's id in the brain; tasks, ended: numbers of tasks."""

    at_ms: int
    job: str
    core: str
    created_ms: int
    started_ms: int | None
    tasks: int
    ended: int
    expected: ExpectedStatus | None


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The end of a job."""

    job: str
    created_ms: int
    end_ms: int
    succeeded: bool


class Whole(msgspec.Struct, frozen=True, tag="whole"):
    """The last line of a run."""

    nodes: int
    cpus: int
    seed: int


Line = LoadedJob | Ran | Answered | Ended | Whole


class Score(NamedTuple):
    """An answer and the remaining time that came, s.

    again: whether a run of the same recurring job had ended. more: whether further jobs were to arrive.
    """

    answerer: str
    job: str
    at_ms: int
    came_s: float
    answer: tuple[float, float, float]
    again: bool
    more: bool

    @property
    def held(self) -> bool:
        """Whether the interval holds what came."""
        return self.answer[0] <= self.came_s <= self.answer[2]


def lines_of(file: Path) -> list[Line]:
    """The lines of a run. Raises InvalidInput for a run that is not whole, and for a foreign file."""
    decode = msgspec.json.Decoder(Line).decode
    found: list[Line] = []
    for number, text in enumerate(file.read_bytes().splitlines(), start=1):
        try:
            found.append(decode(text))
        except msgspec.DecodeError as error:
            raise InvalidInput(f"{file}:{number}: no line of a run of when_answers: {error}") from None
    if not found or not isinstance(found[-1], Whole):
        raise InvalidInput(f"{file}: its run was interrupted: move the file away to measure anew")
    if not any(isinstance(line, Ended) for line in found):
        raise InvalidInput(f"{file}: no job ended within its run: give the run more --longest, or less --load")
    return found


def told(answered: Answered) -> Quantiles:
    """The answer in the status at the moment; None without one, or where it leaves a time open."""
    finish = answered.expected.finish if answered.expected is not None else None
    if finish is None:
        return None
    low, middle, high = (to_ms(each) for each in (finish.p10, finish.p50, finish.p90))
    if low is None or middle is None or high is None:
        return None
    rest = [(ms - answered.at_ms) / 1000 for ms in (low, middle, high)]
    return rest[0], rest[1], rest[2]


def rules(answered: Answered, live: Sequence[Answered], ends: Sequence[int]) -> Iterator[tuple[str, Quantiles]]:
    """Answers of the two simple rules. live: all jobs of the moment; ends: of all jobs, ms, ascending."""
    at = answered.at_ms
    window_s = min(_WINDOW_S, (at - min([each.created_ms for each in live] + list(ends[:1]))) / 1000)
    recent = bisect_right(ends, at) - bisect_right(ends, at - 1000 * window_s)
    before = sum(each.created_ms < answered.created_ms for each in live)
    yield "drain_rate", drained(before + 1, recent, window_s)
    if answered.started_ms is not None:
        yield "progress", progressed((at - answered.started_ms) / 1000, answered.ended, answered.tasks)


class Asked:
    """The brain's memory at each moment, for plays: with beliefs, and told the true mean and variation of each stage.

    A retry is part of what a told task takes. Nobody is told of jobs to come.
    """

    def __init__(self, jobs: Mapping[str, LoadedJob], memories: Path) -> None:
        self._jobs, self._memories = jobs, memories

    def answers(self, progress: Callable[[str], None]) -> Iterator[tuple[int, str, Mapping[str, Quantiles]]]:
        """(moment, answerer, answers by the job's id in the brain)."""
        for text in self._memories.read_bytes().splitlines():
            at, config_maps = msgspec.json.decode(text, type=tuple[int, list[dict[str, Any]]])
            run = paused_present(present_of(config_maps, read_ms=at))
            known = run.moment()
            assert known is not None
            live = [name for name in run.simulation.jobs if name not in known.unknown]
            every = list(run.simulation.jobs)
            progress(f"asking the memory of {at}: {len(every)} jobs")
            recent = Recent(run, None, 0)
            yield at, "simulate", simulated(run, known, recent, live, _DRAWS)
            yield at, "told", simulated(run, self._told(run), recent, every, _DRAWS)

    def _told(self, run: Paused) -> KnownRunTimes:
        known = KnownRunTimes(run.listener, run.at_ms, run.setting.seed)
        known.stages = [each._replace(belief=self._truth(each.job, each.stage)) for each in known.stages]
        return known

    def _truth(self, core: str, stage: int) -> Any:
        mean_s, noise = self._jobs[core.partition("/")[2].rpartition(".")[0]].stages[stage].all_tries
        return certain(1000 * mean_s, noise)


def scored(lines: Sequence[Line], asked: Iterable[tuple[int, str, Mapping[str, Quantiles]]]) -> list[Score]:
    """All answers for jobs that succeeded, with what came; remaining times below LEAST_S are left out."""
    jobs = {line.name: line for line in lines if isinstance(line, LoadedJob)}
    over = {line.job: line for line in lines if isinstance(line, Ended)}
    moments: dict[int, dict[str, Answered]] = {}
    for line in lines:
        if isinstance(line, Answered):
            moments.setdefault(line.at_ms, {})[line.core] = line
    ends = sorted(line.end_ms for line in over.values())
    last = max(line.created_ms for line in lines if isinstance(line, Answered | Ended))
    found: list[Score] = []

    def add(answered: Answered, answerer: str, answer: Quantiles) -> None:
        end = over.get(answered.job)
        if answer is None or end is None or not end.succeeded:
            return
        came = (end.end_ms - answered.at_ms) / 1000
        recurring = jobs[answered.job].recurring
        again = recurring != "" and any(
            each.end_ms <= answered.at_ms for name, each in over.items() if jobs[name].recurring == recurring
        )
        if came >= LEAST_S:
            found.append(Score(answerer, answered.job, answered.at_ms, came, answer, again, answered.at_ms < last))

    for live in moments.values():
        for each in live.values():
            add(each, "status", told(each))
            for answerer, answer in rules(each, list(live.values()), ends):
                add(each, answerer, answer)
    for at, answerer, answers in asked:
        for core, answer in answers.items():
            if (answered := moments.get(at, {}).get(core)) is not None:
                add(answered, answerer, answer)
    return found


def rows(scores: Sequence[Score]) -> Iterator[list[str]]:
    """Cells of HEAD: all answers; by horizon; by whether a run of the same recurring job had ended; by arrivals."""
    parts = {"all": list(scores)}
    parts |= {name: [s for s in scores if low <= s.came_s < high] for name, (low, high) in HORIZONS.items()}
    parts |= {name: [s for s in scores if s.again == again] for name, again in (("first", False), ("again", True))}
    parts |= {name: [s for s in scores if s.more == more] for name, more in (("arrivals", True), ("none more", False))}
    for part, inside in parts.items():
        bound = {(score.job, score.at_ms): score for score in inside if score.answerer == "told"}
        for answerer in ANSWERERS:
            if own := [score for score in inside if score.answerer == answerer]:
                yield [part, answerer, *_cells(own, bound, answerer in _WITH_INTERVAL)]


def _cells(own: Sequence[Score], bound: Mapping[tuple[str, int], Score], with_interval: bool) -> Iterator[str]:
    came, answers = _arrays(own)
    yield f"{len(own)}"
    yield f"{100 * np.mean([each.held for each in own]):.0f}" if with_interval else "-"
    yield f"{100 * np.mean(came > answers[:, 1]):.0f}"
    yield f"{pinball(came, answers):.1f}"
    # On the same questions, since not everybody answers all.
    both = [(score, bound[key]) for score in own if (key := (score.job, score.at_ms)) in bound]
    losses = [pinball(*_arrays(side)) for side in zip(*both, strict=True)] if both else []
    yield f"{losses[0] / losses[1]:.2f}" if losses and losses[1] else "-"
    yield f"{100 * np.median(np.abs(answers[:, 1] - came) / came):.0f}"


def _arrays(scores: Sequence[Score]) -> tuple[Any, Any]:
    return np.array([score.came_s for score in scores]), np.array([score.answer for score in scores])


def held_by_bootstrap(scores: Sequence[Score]) -> tuple[float, float]:
    """95 % interval of the share of intervals that hold, 0..1: jobs are drawn, since answers for a job are alike."""
    by_job: dict[str, list[bool]] = {}
    for each in scores:
        by_job.setdefault(each.job, []).append(each.held)
    counts = np.array([(sum(held), len(held)) for held in by_job.values()])
    drawn = counts[keyed.generator(0, "bootstrap").integers(0, len(counts), (_BOOTSTRAPS, len(counts)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    return float(low), float(high)


def variation(lines: Iterable[Line]) -> float:
    """Coefficient of variation of the run times of all tasks that succeeded."""
    seconds = np.array([line.seconds for line in lines if isinstance(line, Ran) and line.code == 0])
    return float(seconds.std() / seconds.mean())


def summary(lines: Sequence[Line]) -> str:
    """What the run was, in a few lines."""
    whole = lines[-1]
    assert isinstance(whole, Whole)
    jobs = [line for line in lines if isinstance(line, LoadedJob)]
    over = [line for line in lines if isinstance(line, Ended)]
    ran = [line for line in lines if isinstance(line, Ran)]
    answered = [line for line in lines if isinstance(line, Answered)]
    unknown = sum(each.expected is not None and not each.expected.known for each in answered)
    none = sum(each.expected is None for each in answered)
    took = (max(each.end_ms for each in over) - min(each.created_ms for each in over)) / 1000
    failed = sum(line.code != 0 for line in ran)
    stays = [(each.end_ms - each.created_ms) / 1000 for each in over]
    return (
        f"{len(over)} of {len(jobs)} jobs ended within {took:.0f} s on {whole.nodes} nodes of {whole.cpus} CPU "
        f"(median {np.median(stays):.0f} s, longest {max(stays):.0f} s).\n"
        f"{len(ran)} tries of tasks, {failed} failed; coefficient of variation of run times {variation(lines):.2f}.\n"
        f"{len(answered)} looks at live jobs: {none} had no answer yet, {unknown} were told that nothing is known.\n"
    )


def page(runs: Sequence[tuple[Sequence[Line], Path]], progress: Callable[[str], None]) -> str:
    """Summaries and table as plain text, of the lines of each run and the file of the run's memories."""
    scores: list[Score] = []
    for number, (lines, memories) in enumerate(runs):
        jobs = {line.name: line for line in lines if isinstance(line, LoadedJob)}
        found = scored(lines, Asked(jobs, memories).answers(progress))
        scores += [each._replace(job=f"{number}/{each.job}") for each in found]  # runs share the names of their jobs
    said = "".join(summary(lines) for lines, _ in runs)
    for part, least_s in (("status", 0.0), ("beyond five minutes status", 300.0)):
        if written := [score for score in scores if score.answerer == "status" and score.came_s >= least_s]:
            low, high = held_by_bootstrap(written)
            jobs_of = len({score.job for score in written})
            said += f"{part} holds {100 * low:.0f} to {100 * high:.0f} % by bootstrap over {jobs_of} jobs.\n"
    return said + "\n" + _LEGEND + "\n" + aligned([HEAD, *rows(scores)])
