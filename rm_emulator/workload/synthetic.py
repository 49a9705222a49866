"""Workloads like the three of the SLearn paper (Jajoo et al., NSDI 2022), from named knobs.

A workload is a set of recurring jobs (names) with a few runs each. The run times of a run are drawn in three layers,
as the paper measures three different things:

- a name has a usual mean task run time, and its history perhaps a longer mean (`drifted`, `drift`): jobs got shorter
  between the two halves of the traces, since 3Sigma over-estimates 59.8 % of the jobs, by 899 % on average (paper,
  Table 10);
- a run differs from the usual by `jitter`, and now and then (`outliers`) is much longer, by as much as gives the
  name's history its variation over time (Table 4);
- the tasks of a run differ from its mean by the name's variation over space (Table 4).

Names, widths, levels and variations are spread evenly over the jobs (a draw per stratum), so that the
shares of Table 8 hold for every seed. Of many random orders of arrival the first order with windows near Table 5 is
taken. `python -m studies.presets` prints all figures next to the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from rm_emulator.workload import normal
from rm_emulator.workload.model import PerTask, Workload, WorkloadJob
from rm_emulator.workload.work import window_loads
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters, UnknownName, nearest
from schedulers.core.model import Job, PastJob, Stage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Slots of the paper's cluster; preset widths are meant for it.
SLOTS: Final = 150
_DAY_MS: Final = 86_400_000
#: The standard normal's 90th percentile.
_P90: Final = 1.2815515655446004
#: Gaps inside a storm, relative to those outside.
_STORM_GAP: Final = 0.005
_ORDERS: Final = 400
_NEAR: Final = 0.04


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Knobs of the generator. Widths hold on 150 slots; run times are seconds at node speed 1."""

    window_load: Annotated[float, Meta(gt=0, description="mean load, if the workload has no `load`")]
    window_p50: Annotated[float, Meta(gt=0, description="median load of 1000 s windows at that mean")]
    window_p90: Annotated[float, Meta(gt=0, description="90th percentile of the load of 1000 s windows")]
    burstiness: Annotated[float, Meta(ge=0, description="sigma of the log-normal gaps between arrivals")]
    tide: Annotated[float, Meta(ge=0, description="sigma of the slow log-normal changes of the gaps")] = 0.0
    tide_jobs: Annotated[float, Meta(ge=1, description="number of jobs between two slow changes of the gaps")] = 60.0
    storms: Annotated[float, Meta(ge=0, le=1, description="share of jobs that arrive in storms")] = 0.0
    storm_jobs: Annotated[float, Meta(ge=1, description="number of jobs of a storm")] = 40.0
    single: Annotated[float, Meta(ge=0, le=1, description="share of jobs with one task")]
    pair: Annotated[float, Meta(ge=0, le=1, description="share of jobs with two tasks")]
    gang: Annotated[
        float, Meta(ge=0, le=1, description="share of jobs with `gang_width` tasks; the other jobs are wide")
    ]
    gang_width: Annotated[int, Meta(ge=3, description="number of tasks of a gang job")] = 4
    wide_width: Annotated[float, Meta(gt=0, description="median width of a wide job (log-normal)")]
    wide_width_sigma: Annotated[float, Meta(ge=0, description="sigma of the logarithm of a wide job's width")]
    wide_width_min: Annotated[int, Meta(ge=1, description="least number of tasks of a wide job")] = 5
    wide_width_max: Annotated[int, Meta(ge=1, description="largest number of tasks of a wide job")] = 150
    thin_task_s: Annotated[float, Meta(gt=0, description="median task run time of jobs of one or two tasks, s")]
    thin_task_sigma: Annotated[float, Meta(ge=0, description="sigma of the logarithm of that run time over jobs")]
    gang_task_s: Annotated[float, Meta(gt=0, description="median task run time of gang jobs, s")]
    gang_task_sigma: Annotated[float, Meta(ge=0, description="sigma of the logarithm of that run time over jobs")]
    wide_task_s: Annotated[float, Meta(gt=0, description="median task run time of wide jobs, s")]
    wide_task_sigma: Annotated[float, Meta(ge=0, description="sigma of the logarithm of that run time over jobs")]
    task_max_s: Annotated[float, Meta(gt=0, description="longest mean task run time of a job, s")]
    past_task_max_s: Annotated[
        float, Meta(gt=0, description="longest mean task run time of a past job; at most 0.9 of `history_days`")
    ]
    even_cov: Annotated[float, Meta(ge=0, description="median CoV among the tasks of a pair or gang job")]
    even_cov_sigma: Annotated[float, Meta(ge=0, description="sigma of the logarithm of that CoV over jobs")]
    wide_cov: Annotated[float, Meta(ge=0, description="median CoV among the tasks of a wide job")]
    wide_cov_sigma: Annotated[float, Meta(ge=0, description="sigma of the logarithm of that CoV over jobs")]
    cov_max: Annotated[float, Meta(gt=0, description="largest CoV among the tasks of a job")] = 3.0
    two_speeds: Annotated[
        float,
        Meta(ge=0, le=1, description="share of the variance among tasks that comes from machines of two speeds"),
    ]
    time_cov_p50: Annotated[float, Meta(gt=0, description="median CoV of a name's mean task run time over its history")]
    time_cov_p90: Annotated[
        float,
        Meta(gt=0, description="90th percentile over jobs of the CoV of a name's mean task run time over its history"),
    ]
    jitter: Annotated[float, Meta(ge=0, description="sigma of the log-normal run-to-run noise of a name")]
    outliers: Annotated[float, Meta(ge=0, le=0.5, description="share of a name's runs that take far longer")] = 0.055
    outliers_large: Annotated[
        float,
        Meta(ge=0, le=1, description="who runs far longer than in history: 0 by chance, 1 the largest jobs"),
    ] = 0.0
    drifted: Annotated[float, Meta(ge=0, le=1, description="share of jobs that are shorter than in their history")]
    drift: Annotated[
        float, Meta(ge=0, description="mean logarithm of the factor by which these jobs were longer (exponential)")
    ]
    tail_over: Annotated[
        float,
        Meta(ge=0, le=1, description="share of the `drifted` that history over-estimates; the others are longer now"),
    ] = 1.0
    drift_max_s: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="longest past mean task run time that drift alone makes, s; null: any"),
    ]
    runs_per_name: Annotated[float, Meta(ge=1, description="mean number of runs of a name in the workload")] = 2.5
    popularity: Annotated[float, Meta(ge=0, description="Zipf exponent of the number of runs over names")] = 0.5
    new_names: Annotated[float, Meta(ge=0, le=1, description="share of jobs whose name has no history")] = 0.05
    past_runs: Annotated[int, Meta(ge=2, description="number of runs in the history of each name that has one")] = 18
    history_days: Annotated[float, Meta(gt=0, description="span of the history before the first arrival, days")]
    names_per_app: Annotated[float, Meta(ge=1, description="mean number of names of an app")] = 8.0
    app_noise: Annotated[
        float,
        Meta(
            ge=0,
            description="noise in what the app tells of run times; 0: names in order of run time, from 1 on: nothing",
        ),
    ] = 0.3
    names_per_user: Annotated[float, Meta(ge=1, description="mean number of names of a user")] = 12.0
    cpu_milli: Annotated[int, Meta(ge=1, description="CPU demand of a task, millicores")] = 1000
    memory_mib: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...],
        Meta(min_length=1, description="memory demands of tasks, one per app, MiB"),
    ] = (1024, 2048, 3072, 4096)

    def __post_init__(self) -> None:
        if self.single + self.pair + self.gang > 1 + 1e-9:
            raise ValueError(f"single + pair + gang is {self.single + self.pair + self.gang:.3f} (at most 1)")
        if self.time_cov_p90 < self.time_cov_p50:
            raise ValueError(f"time_cov_p90 ({self.time_cov_p90}) is below time_cov_p50 ({self.time_cov_p50})")


# How the constants were found. Shares of widths and the 1000 s line between small and large come straight from
# Table 8 and section 5.2.7 (thin and large: 14.29, 1.90 and 1.60 % of the jobs). Run times, burstiness and storms:
# a random search for the medians of Table 5's P50 and P90 over random orders of arrival (seeds 1 and 2, 600 to
# 1900 tries per preset), narrowed twice; Google's windows, whose P90 is near or below their mean, need storms.
# 2Sigma's tide: Figure 11 tells of stretches of 20,000 to 200,000 s above and below load 1, here 60 to 600 jobs.
# Variations over space and time: a random search for Table 4 and the errors of sampling, then steps by hand, one
# knob at a time, on seeds 1 to 4; drift and jitter: by hand for 3Sigma's errors, with our three_sigma at its
# defaults. `time_cov_p90` lies above the paper's figure because the feature with the least variation counts.
# docs/research/presets-against-the-paper.md has the figures of seeds 1 to 10.
_LIKE: Final[Mapping[str, Preset]] = {
    "2sigma-like": Preset(
        window_load=1.05,
        window_p50=0.13,
        window_p90=2.47,
        burstiness=0.9,
        tide=0.75,
        tide_jobs=80.0,
        single=0.01,
        pair=0.1784,
        gang=0.15,
        wide_width=36.0,
        wide_width_sigma=0.4,
        thin_task_s=2000.0,
        thin_task_sigma=1.9,
        gang_task_s=108.0,
        gang_task_sigma=1.6,
        wide_task_s=110.0,
        wide_task_sigma=2.35,
        task_max_s=45_000.0,
        past_task_max_s=250_000.0,
        even_cov=0.02,
        even_cov_sigma=0.8,
        wide_cov=0.3,
        wide_cov_sigma=0.75,
        two_speeds=0.85,
        time_cov_p50=1.0,
        time_cov_p90=4.5,
        jitter=0.24,
        drifted=0.39,
        drift=2.8,
        drift_max_s=5000.0,
        history_days=7.0,
    ),
    "google11-like": Preset(
        window_load=1.01,
        window_p50=0.29,
        window_p90=1.49,
        burstiness=0.95,
        storms=0.45,
        storm_jobs=200.0,
        single=0.12,
        pair=0.43,
        gang=0.1,
        gang_width=12,
        wide_width=24.0,
        wide_width_sigma=0.45,
        thin_task_s=38.0,
        thin_task_sigma=1.4,
        gang_task_s=150.0,
        gang_task_sigma=1.4,
        wide_task_s=230.0,
        wide_task_sigma=1.57,
        task_max_s=90_000.0,
        past_task_max_s=150_000.0,
        even_cov=0.01,
        even_cov_sigma=0.4,
        wide_cov=0.33,
        wide_cov_sigma=0.63,
        two_speeds=0.5,
        time_cov_p50=0.19,
        time_cov_p90=0.75,
        jitter=0.13,
        drifted=0.45,
        drift=1.6,
        drift_max_s=3600.0,
        history_days=2.0,
    ),
    "google19-like": Preset(
        window_load=1.04,
        window_p50=0.09,
        window_p90=0.91,
        burstiness=0.75,
        storms=0.7,
        storm_jobs=200.0,
        single=0.2,
        pair=0.1,
        gang=0.0,
        wide_width=30.0,
        wide_width_sigma=0.33,
        thin_task_s=65.0,
        thin_task_sigma=1.4,
        gang_task_s=65.0,
        gang_task_sigma=1.4,
        wide_task_s=200.0,
        wide_task_sigma=1.5,
        task_max_s=100_000.0,
        past_task_max_s=150_000.0,
        even_cov=0.25,
        even_cov_sigma=0.5,
        wide_cov=0.82,
        wide_cov_sigma=0.45,
        two_speeds=0.3,
        time_cov_p50=1.36,
        time_cov_p90=1.68,
        jitter=0.5,
        drifted=0.6,
        drift=4.0,
        drift_max_s=40_000.0,
        app_noise=0.8,
        history_days=2.0,
    ),
}
# Google's traces once more, set to errors made in a run of GS, and with large jobs among the misjudged. Two steps,
# neither aimed at SLearn's gain over 3Sigma:
# - arrivals and run times of wide jobs: random tries (179 and 223, 130 and 210 CPU seconds) for Table 5 on seeds 1 and
#   2, and of the dozen that met it one with LAS near the paper's 1.65 and 1.72 times SLearn's completion time. Hence
#   wide jobs of much the same size, and few small ones: with the spread of google11-like LAS stays at 2.5 to 4.7. A
#   first search, over widths as well (243 tries, 240 CPU seconds), came no nearer.
# - drifted, drift, tail_over: a random search for google11 (160 CPU seconds), then a few steps by hand for both, on
#   seeds 1 to 3, for P50 and P90 of 3Sigma's error in the run (section 4.3) and its wide jobs in the right queue (Table
#   7); outliers_large and drift_max_s were set by hand.
# The gain was looked at when both stood. Then another of the dozen took the place of google11's first, whose windows
# were off Table 5 on seed 2 by more than rounding (the first's gain: 1.21 on two seeds).
PRESETS: Final[Mapping[str, Preset]] = {
    **_LIKE,
    "google11-misjudged": msgspec.structs.replace(
        _LIKE["google11-like"],
        burstiness=0.645,
        storms=0.636,
        storm_jobs=142.0,
        gang_task_s=848.0,
        gang_task_sigma=0.611,
        wide_task_s=848.0,
        wide_task_sigma=0.611,
        task_max_s=1546.0,
        outliers_large=1.0,
        drifted=0.43,
        drift=1.75,
        tail_over=0.88,
        drift_max_s=None,
    ),
    "google19-misjudged": msgspec.structs.replace(
        _LIKE["google19-like"],
        burstiness=1.254,
        storms=0.764,
        storm_jobs=201.0,
        gang_task_s=835.0,
        gang_task_sigma=0.765,
        wide_task_s=835.0,
        wide_task_sigma=0.765,
        task_max_s=1620.0,
        outliers_large=1.0,
        drifted=0.55,
        drift=3.0,
        tail_over=0.96,
        drift_max_s=None,
    ),
}


class _Names(NamedTuple):
    """The recurring jobs as arrays of shape (names,)."""

    runs: Ints
    """Number of runs in the workload."""
    tasks: Ints
    task_ms: Floats
    """Usual mean task run time."""
    past_ms: Floats
    """Usual mean task run time in the history."""
    time_cov: Floats
    """Variation over time."""
    space_cov: Floats
    """Variation over space."""
    new: Flags
    """Whether the name has no history."""
    app: Ints
    """Number of the app."""
    user: Ints
    """Number of the user."""
    memory: Ints
    """MiB."""


def spec(preset: str, knobs: Mapping[str, Any] | None = None) -> Preset:
    """The knobs of a preset, with some of them changed.

    Raises UnknownName for a preset, and InvalidParameters with the knob, the value and the accepted values.
    """
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    changed = dict(knobs or {})
    for name in changed:
        if name not in Preset.__struct_fields__:
            near = nearest(name, Preset.__struct_fields__)
            hint = f", did you mean '{near}'?" if near else ""
            known = ", ".join(Preset.__struct_fields__)
            raise InvalidParameters(f"preset '{preset}' has no knob '{name}'{hint} (it has: {known})")
    try:
        return msgspec.convert({**msgspec.structs.asdict(PRESETS[preset]), **changed}, Preset)
    except msgspec.ValidationError as error:
        raise InvalidParameters(f"preset '{preset}': {error}") from None


def generate(
    preset: str | Preset,
    *,
    jobs: int = 1250,
    load: float | None = None,
    slots: int = SLOTS,
    seed: int = 1,
    history: bool = True,
) -> Workload:
    """A workload of single-stage jobs with the true run time of each task, and the history before.

    preset: a name of PRESETS, or knobs. load: all work over slots x arrival span, reached exactly by
    stretching the arrivals; None: the preset's. slots: widths grow in proportion (jobs of a single task stay so).
    Another load changes the times of arrival and nothing else. history: with past jobs, at negative times.
    Raises UnknownName for a preset, InvalidParameters for impossible numbers.
    """
    name, knobs = (preset, spec(preset)) if isinstance(preset, str) else ("synthetic", preset)
    if jobs < 1 or slots < 1 or (load is not None and not 0 < load < math.inf):
        raise InvalidParameters(f"jobs {jobs}, slots {slots}, load {load}: all must be above 0")
    names = _names(knobs, jobs, slots, seed)
    past, longer = _history(knobs, names, seed)
    of, runtimes = _runs(knobs, names, longer, seed)
    work = np.array([sum(times) for times in runtimes], dtype=np.int64)
    order, gaps = _order(knobs, work, slots, seed)
    submit = _arrivals(gaps, int(work.sum()), slots, knobs.window_load if load is None else load)
    digits = len(str(jobs - 1))
    made = tuple(
        WorkloadJob(
            job=_job(f"job-{index:0{digits}d}", names, int(of[run]), knobs),
            submit_ms=int(at),
            runtimes=(PerTask(runtimes[run]),),
        )
        for index, (run, at) in enumerate(zip(order.tolist(), submit.tolist(), strict=True))
    )
    return Workload(
        name=name,
        jobs=made,
        history=_past_jobs(knobs, names, past, seed) if history else (),
        source="synthetic, calibrated to the tables of Jajoo et al., SLearn, NSDI 2022",
    )


def _names(knobs: Preset, jobs: int, slots: int, seed: int) -> _Names:
    runs = _run_counts(knobs, jobs)
    kind = _spread(seed, "kind", runs)
    thin = kind < knobs.single + knobs.pair
    gang = ~thin & (kind < knobs.single + knobs.pair + knobs.gang)
    wide = ~thin & ~gang
    width = np.where(kind < knobs.single, 1, np.where(thin, 2, knobs.gang_width))
    drawn = np.rint(knobs.wide_width * np.exp(knobs.wide_width_sigma * normal.quantiles(_spread(seed, "width", runs))))
    width = np.where(wide, np.clip(drawn, knobs.wide_width_min, knobs.wide_width_max), width).astype(np.int64)
    task_s, space_cov = np.ones(len(runs)), np.zeros(len(runs))
    for label, inside, median, sigma, cov, cov_sigma in (
        ("thin", thin, knobs.thin_task_s, knobs.thin_task_sigma, knobs.even_cov, knobs.even_cov_sigma),
        ("gang", gang, knobs.gang_task_s, knobs.gang_task_sigma, knobs.even_cov, knobs.even_cov_sigma),
        ("wide", wide, knobs.wide_task_s, knobs.wide_task_sigma, knobs.wide_cov, knobs.wide_cov_sigma),
    ):
        task_s[inside] = median * np.exp(sigma * normal.quantiles(_spread(seed, f"task {label}", runs[inside])))
        space_cov[inside] = cov * np.exp(cov_sigma * normal.quantiles(_spread(seed, f"space {label}", runs[inside])))
    task_ms = 1000.0 * np.minimum(task_s, knobs.task_max_s)
    drift = _drift(knobs, _spread(seed, "drift", runs))
    grown = _grown(knobs, runs, drift > 0, task_ms * width, seed)
    longest_ms = math.inf if knobs.drift_max_s is None else 1000.0 * knobs.drift_max_s
    past_ms = np.minimum(task_ms * np.exp(np.where(grown, -drift, drift)), np.maximum(task_ms, longest_ms))
    sigma = math.log(knobs.time_cov_p90 / knobs.time_cov_p50) / _P90
    app = _apps(knobs, past_ms, seed)
    user = _ranks(_draw(seed, "user", len(runs))) * _groups(len(runs), knobs.names_per_user) // len(runs)
    sizes = np.array(knobs.memory_mib, dtype=np.int64)
    return _Names(
        runs=runs,
        tasks=np.where(width == 1, 1, np.maximum(1, (2 * width * slots + SLOTS) // (2 * SLOTS))),
        task_ms=task_ms,
        past_ms=past_ms,
        time_cov=knobs.time_cov_p50 * np.exp(sigma * normal.quantiles(_spread(seed, "time", runs))),
        space_cov=np.minimum(space_cov, knobs.cov_max),
        new=_spread(seed, "new", runs) < knobs.new_names,
        app=app,
        user=user,
        memory=sizes[app % len(sizes)],
    )


def _run_counts(knobs: Preset, jobs: int) -> Ints:
    """Runs of each name: at least 1, the rest by Zipf's law with the largest remainders rounded up."""
    names = max(1, round(jobs / knobs.runs_per_name))
    weights = np.arange(1, names + 1, dtype=np.float64) ** -knobs.popularity
    ideal = weights / weights.sum() * (jobs - names)
    runs: Ints = np.floor(ideal).astype(np.int64) + 1
    runs[np.argsort(runs - ideal, kind="stable")[: jobs - int(runs.sum())]] += 1
    return runs


def _drift(knobs: Preset, quantile: Floats) -> Floats:
    """Logarithm of past over present run time: 0, or exponential for the `drifted` share."""
    if knobs.drifted == 0:
        return np.zeros_like(quantile)
    inside = np.minimum(quantile / knobs.drifted, 1 - 1e-9)
    drift: Floats = np.where(quantile < knobs.drifted, -knobs.drift * np.log1p(-inside), 0.0)
    return drift


def _grown(knobs: Preset, runs: Ints, drifted: Flags, size: Floats, seed: int) -> Flags:
    """Which of the drifted names are longer than in their history: a share of their runs."""
    grown = np.zeros(len(runs), dtype=np.bool_)
    if knobs.tail_over < 1 and drifted.any():
        chance = _spread(seed, "tail", runs[drifted])
        grown[drifted] = _among(1 - knobs.tail_over, chance, size[drifted], runs[drifted], knobs.outliers_large)
    return grown


def _among(part: float, chance: Floats, size: Floats, weights: Ints, large: float) -> Flags:
    """Who is among a part of all, by weight. large: how much size decides, and how little chance (quantiles)."""
    if large == 0:
        return chance < part
    order = np.argsort((1 - large) * chance - large * _ranks(size) / len(size), kind="stable")
    among = np.empty(len(size), dtype=np.bool_)
    among[order] = np.cumsum(weights[order]) - weights[order] / 2 < part * weights.sum()
    return among


def _apps(knobs: Preset, past_ms: Floats, seed: int) -> Ints:
    """App number of each name: names of the same app have similar run times, up to the noise."""
    level = _ranks(past_ms) / len(past_ms)
    rank = _ranks(level + knobs.app_noise * (_draw(seed, "app", len(past_ms)) - 0.5))
    app: Ints = rank * _groups(len(rank), knobs.names_per_app) // len(rank)
    return app


def _history(knobs: Preset, names: _Names, seed: int) -> tuple[Floats, Floats]:
    """Mean task run time (whole ms) of each past run, shape (names, past_runs), and how much longer an outlier is.

    The outliers of a name are as long as its variation over time asks for: with n runs, m of them of length y,
    the others summing to S and their squares to Q, y solves n (Q + m y^2) = (1 + CoV^2) (S + m y)^2.
    """
    count, runs = len(names.runs), knobs.past_runs
    noise = normal.quantiles(_draw(seed, "past jitter", count * runs)).reshape(count, runs)
    factor = np.exp(knobs.jitter * noise - knobs.jitter**2 / 2)
    long = max(1, round(knobs.outliers * runs)) if knobs.outliers > 0 else 0
    longer = np.ones(count)
    if long:
        rest = factor[:, long:]
        spread = np.minimum(1 + names.time_cov**2, 0.97 * runs / long)
        a = long * (runs - spread * long)
        b = -2 * spread * rest.sum(axis=1) * long
        c = runs * np.square(rest).sum(axis=1) - spread * np.square(rest.sum(axis=1))
        root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
        longer = np.maximum(1.0, (root - b) / (2 * a))
        factor[:, :long] = longer[:, None]
    place = np.argsort(_draw(seed, "past outliers", count * runs).reshape(count, runs), axis=1, kind="stable")
    past = np.take_along_axis(factor, place, axis=1) * names.past_ms[:, None]
    longest = min(1000.0 * knobs.past_task_max_s, 0.9 * knobs.history_days * _DAY_MS)
    return np.maximum(1.0, np.rint(np.minimum(past, longest))), longer


def _runs(knobs: Preset, names: _Names, longer: Floats, seed: int) -> tuple[Ints, list[tuple[int, ...]]]:
    """Name of each run, shape (jobs,), and the run time (ms) of each of its tasks."""
    of = np.repeat(np.arange(len(names.runs)), names.runs)
    each = np.ones(len(of), dtype=np.int64)
    usual = np.exp(knobs.jitter * normal.quantiles(_spread(seed, "jitter", each)) - knobs.jitter**2 / 2)
    size = (names.task_ms * names.tasks)[of]
    outlying = _among(knobs.outliers, _spread(seed, "outliers", each), size, each, knobs.outliers_large)
    factor = np.where(outlying, longer[of], usual)
    mean_ms = np.minimum(names.task_ms[of] * factor, 1000.0 * knobs.task_max_s)
    tasks = names.tasks[of]
    first = np.cumsum(tasks) - tasks
    noise = normal.quantiles(_draw(seed, "task noise", int(tasks.sum())))
    speed = np.where(_draw(seed, "task speed", len(noise)) < 0.5, -1.0, 1.0)
    mixed = math.sqrt(knobs.two_speeds) * speed + math.sqrt(1 - knobs.two_speeds) * noise
    shape = np.exp(np.repeat(np.sqrt(np.log1p(np.square(names.space_cov[of]))), tasks) * mixed)
    scale = mean_ms * tasks / np.add.reduceat(shape, first)
    ms = np.maximum(1, np.rint(shape * np.repeat(scale, tasks))).astype(np.int64).tolist()
    return of, [tuple(ms[start : start + n]) for start, n in zip(first.tolist(), tasks.tolist(), strict=True)]


def _order(knobs: Preset, work: Ints, slots: int, seed: int) -> tuple[Ints, Floats]:
    """Order in which the runs arrive, and arrival times as fractions of the span, both of shape (jobs,).

    The first of at most 400 random orders with the wanted mean, P50 and P90 of windows within 4 %, else the nearest.
    Each order tries its own burstiness, within 30 % of the knob.
    """
    jobs, total = len(work), int(work.sum())
    best: tuple[float, Ints, Floats] | None = None
    for trial in range(_ORDERS if jobs > 2 else 1):
        draws = keyed.generator(seed, "synthetic arrivals", trial).random(4 * jobs)
        order = np.argsort(draws[:jobs], kind="stable")
        bursty = knobs.burstiness * (0.7 + 0.6 * draws[jobs])
        gaps = np.exp(bursty * normal.quantiles(np.maximum(draws[jobs + 1 : 2 * jobs], 2**-53)))
        gaps *= _tide(knobs, jobs, draws[3 * jobs :])[1:] * _in_storm(knobs, jobs, draws[2 * jobs : 3 * jobs])[1:]
        at = np.concatenate(([0.0], np.cumsum(gaps) / gaps.sum() if jobs > 1 else []))
        loads = window_loads(_arrivals(at, total, slots, knobs.window_load), work[order].astype(np.float64), slots)
        p50, p90 = np.quantile(loads, (0.5, 0.9))
        far = max(
            _log_ratio(p50, knobs.window_p50),
            _log_ratio(p90, knobs.window_p90),
            _log_ratio(loads.mean(), knobs.window_load),
        )
        if best is None or far < best[0]:
            best = (far, order, at)
        if far < _NEAR:
            break
    assert best is not None
    return best[1], best[2]


def _tide(knobs: Preset, jobs: int, draws: Floats) -> Floats:
    """Factor on the gap before each job, the same for `tide_jobs` jobs: the load comes and goes."""
    level = np.exp(knobs.tide * normal.quantiles(np.maximum(draws, 2**-53)))
    factor: Floats = level[(np.arange(jobs) / knobs.tide_jobs).astype(np.int64)]
    return factor


def _in_storm(knobs: Preset, jobs: int, draws: Floats) -> Floats:
    """Factor on the gap before each job: 1, or `_STORM_GAP` inside a storm; storms start at random places."""
    storms = round(knobs.storms * jobs / knobs.storm_jobs)
    factor = np.ones(jobs)
    if storms:
        inside = min(jobs, round(knobs.storms * jobs))
        place = np.sort((draws[:storms] * (jobs - inside + 1)).astype(np.int64))
        ends = np.arange(1, storms + 1) * inside // storms
        for start, before, end in zip(place.tolist(), [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            factor[start + before : start + end] = _STORM_GAP
    return factor


def _arrivals(at: Floats, work_ms: int, slots: int, load: float) -> Ints:
    """Arrivals in whole ms, from fractions of the span with the load."""
    return np.rint(at * (work_ms / (slots * load))).astype(np.int64)


def _log_ratio(value: float, wanted: float) -> float:
    return abs(math.log(max(float(value), 1e-9) / wanted))


def _job(job_id: str, names: _Names, of: int, knobs: Preset) -> Job:
    stage = Stage(name="tasks", tasks=int(names.tasks[of]), demand=(knobs.cpu_milli, int(names.memory[of])))
    name, user, app = _labels(names, of)
    return Job(id=job_id, stages=(stage,), name=name, user=user, app=app)


def _labels(names: _Names, of: int) -> tuple[str, str, str]:
    """Name, user and app."""
    app = f"app-{int(names.app[of]):03d}"
    return f"{app}/script-{of:04d}", f"user-{int(names.user[of]):03d}", app


def _past_jobs(knobs: Preset, names: _Names, task_ms: Floats, seed: int) -> tuple[PastJob, ...]:
    """The history, oldest first; the last run ends before time 0."""
    when = _draw(seed, "past arrivals", task_ms.size).reshape(task_ms.shape)
    waited = _draw(seed, "past waits", task_ms.size).reshape(task_ms.shape)
    span = knobs.history_days * _DAY_MS
    past = []
    for of in np.flatnonzero(~names.new).tolist():
        (name, user, app), tasks = _labels(names, of), int(names.tasks[of])
        demand = (knobs.cpu_milli, int(names.memory[of]))
        for ms, u, v in zip(task_ms[of].tolist(), when[of].tolist(), waited[of].tolist(), strict=True):
            took = math.ceil(ms + v * max(0.0, min(span / 4, span - ms)))
            submitted = int((u - 1) * (span - took)) - took
            past.append(
                PastJob(
                    name=name,
                    submitted=submitted,
                    finished=submitted + took,
                    stages=((tasks, ms),),
                    user=user,
                    app=app,
                    demand=demand,
                )
            )
    return tuple(sorted(past, key=lambda job: (job.finished, job.name)))


def _spread(seed: int, purpose: str, weights: Ints) -> Floats:
    """Quantiles in (0, 1), a quantile per item, that cover the interval evenly by weight, in random order."""
    draws = keyed.generator(seed, f"synthetic {purpose}").random(2 * len(weights))
    order = np.argsort(draws[: len(weights)], kind="stable")
    ahead = np.cumsum(weights[order])
    quantile = np.empty(len(weights))
    quantile[order] = (ahead - weights[order] * draws[len(weights) :]) / max(1, int(weights.sum()))
    return np.clip(quantile, 1e-9, 1 - 1e-9)


def _draw(seed: int, purpose: str, count: int) -> Floats:
    """Independent numbers in (0, 1). Only `random` is drawn from: its stream is the same on every machine."""
    return np.maximum(keyed.generator(seed, f"synthetic {purpose}").random(count), 2**-53)


def _ranks(values: Floats) -> Ints:
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks


def _groups(names: int, per_group: float) -> int:
    return max(1, round(names / per_group))
