"""Sparrow's ways to choose workers, beside one queue that knows every slot: response times, waits, messages.

    python -m studies.sparrow --docs docs

Tasks take 200 ms on average and a message 1 ms: the paper's ratio of 100 ms to half a millisecond (SOSP 2013, section
7), in whole ms. Each cell is a run of its own and is kept, so a stopped study goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import msgspec
import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.known_answers.zero_wait import zero_wait
from rm_emulator.program import end
from studies.erlang import longest, relaxation
from studies.kept import measured
from studies.sparrow_runs import IDEAL, MEAN_MS, Case, Ran, measure, measure_tpch
from studies.steady import marked
from studies.tables import filled, over_seeds, table

NAME: Final = "results-sparrow"
METHODS: Final = ("random", "per_task", "batch", "late_binding", IDEAL)
LOADS: Final = (0.5, 0.7, 0.8, 0.9, 0.95)
#: Mean task times of the long runs; five times as many for random workers at load 0.95, an eighth on 10,000 workers.
SPAN: Final = 400.0


def responses(span: float = SPAN) -> dict[tuple[str, float], Case]:
    """Methods over loads. At load 0.95 queues of `random`, each for itself, forget their start slowly."""
    return {
        (method, load): Case(method=method, load=load, span=5 * span if (method, load) == ("random", 0.95) else span)
        for load in LOADS
        for method in METHODS
    }


RATIOS: Final = (1.0, 1.1, 1.5, 2.0, 3.0, 4.0)
#: Mean run times of tasks, ms; what one scheduler thinks about each.
TASKS_MS: Final = (4000, 2000, 1000, 500, 200, 100)
THINK_MS: Final = 1
#: Of tables whose methods hardly queue: late binding, and what is held against it.
SHORT: Final = 50
#: 10 tasks per job on workers of one slot, half of them busy, and messages that take no time, as the formula has it.
ZERO_WAIT: Final = {
    method: Case(method=method, load=0.5, span=25, workers=2000, slots=1, tasks=10, delay=0) for method in METHODS[:-1]
}


def large(span: float = SPAN) -> dict[str, Case]:
    """Methods on ten thousand workers."""
    return {method: Case(method=method, load=0.8, span=span / 8, workers=10_000) for method in METHODS}


def side() -> dict[tuple[str, Any], Case]:
    """Side tables at load 0.8, by table and row."""
    base = Case(method="late_binding", load=0.8, span=SHORT)
    change = msgspec.structs.replace
    return {
        **{("ratio", ratio): change(base, ratio=ratio) for ratio in RATIOS},
        ("cancellation", False): change(base, cancellation=False),
        **{
            ("durations", (method, ms)): change(
                base, method=method, task_ms=ms, span=25, think_ms=THINK_MS if method == IDEAL else 0
            )
            for ms in TASKS_MS
            for method in ("late_binding", IDEAL)
        },
        **{("long", method): change(base, method=method, mix="long", span=100) for method in METHODS},
        **{("users", mix): change(base, mix=mix, load=0.5, span=25) for mix in ("users", "fifo users")},
        ("users", "alone"): change(base, load=0.25, span=25),
        **{("hosts", method): change(base, method=method, mix="hosts") for method in ("random", "per_task")},
    }


#: TPC-H on about as many workers as the paper's 110, and so many queries of a run.
TPCH: Final = {method: Case(method=method, load=0.8, span=0, workers=100) for method in METHODS}
QUERIES: Final = 400

Runs = Sequence[Ran]


def cell(runs: Runs, figure: str = "mean_ms") -> str:
    """A figure over seeds; in italics where the run grows (`steady.grows`), so that it holds of this span alone."""
    return marked(over_seeds([getattr(run, figure) for run in runs]), [run.quarters_ms for run in runs])


def response_table(found: Mapping[tuple[str, float], Runs], figure: str = "mean_ms") -> str:
    """A row per method, a column per load; for the mean also what M/M/4 says of `random`."""
    loads = list(dict.fromkeys(load for _, load in found))
    rows = [[method, *(cell(found[method, load], figure) for load in loads)] for method in METHODS]
    if figure == "mean_ms":
        rows.insert(1, ["random by M/M/4", *(f"{MEAN_MS * longest(4, load, 50):.0f}" for load in loads)])
    return table(("method", *(f"load {load:g}" for load in loads)), rows)


def above_ideal(runs: Runs, ideal: Runs) -> str:
    """How far the mean response time is above the ideal one, seed by seed, %."""
    return over_seeds([100 * (run.mean_ms / best.mean_ms - 1) for run, best in zip(runs, ideal, strict=True)], 1)


def tpch_table(found: Mapping[str, Runs]) -> str:
    """A row per method: mean and p99 of queries, and how far the mean is above the ideal one."""
    rows = [
        [method, cell(runs), cell(runs, "p99_ms"), "-" if method == IDEAL else above_ideal(runs, found[IDEAL])]
        for method, runs in found.items()
    ]
    return table(("method", "mean, ms", "p99, ms", "mean above ideal, %"), rows)


def message_table(found: Mapping[tuple[str, float], Runs], without: Runs) -> str:
    """Messages per task at load 0.8, and how far the mean response time is above the ideal one."""
    named = {method: found[method, 0.8] for method in METHODS} | {"late_binding, no cancellation": without}
    rows = []
    for method, runs in named.items():
        above = "-"
        if method in METHODS:
            above = above_ideal(runs, found[IDEAL, 0.8])
        rows.append([method, f"{fmean(run.messages for run in runs):.2f}", above])
    return table(("method", "messages per task", "mean response above ideal, %"), rows)


def wait_table(found: Mapping[str, Runs]) -> str:
    """The part of jobs of which no task waits, with its interval over the seeds, beside the formula."""
    rows = []
    for method, runs in found.items():
        parts = [run.at_once for run in runs]
        low, high = api.interval(parts).ci95 or (math.nan, math.nan)
        formula = "batch" if method == "late_binding" else method
        expected = zero_wait(formula, 0.5, 10, 2.0)
        inside = "yes" if low <= expected <= high else "no"
        rows.append([method, f"{fmean(parts):.4f} [{max(low, 0):.4f}, {high:.4f}]", f"{expected:.4f}", inside])
    return table(("method", "no task waits", "formula", "inside"), rows)


def row_table(head: Sequence[str], found: Mapping[Any, Runs], *, messages: bool = False) -> str:
    """A row per case: mean, p99, and perhaps messages per task."""
    rows = [
        [
            f"{name:g}" if isinstance(name, float) else str(name),
            cell(runs),
            cell(runs, "p99_ms"),
            *([f"{fmean(run.messages for run in runs):.2f}"] if messages else []),
        ]
        for name, runs in found.items()
    ]
    return table(head, rows)


def duration_table(found: Mapping[tuple[str, int], Runs]) -> str:
    """Mean response by mean task time, in mean task times, under late binding and under one scheduler that thinks."""
    rows = []
    for ms in TASKS_MS:
        parts = []
        for method in ("late_binding", IDEAL):
            runs = found[method, ms]
            parts.append(marked(over_seeds([run.mean_ms / ms for run in runs], 2), [run.quarters_ms for run in runs]))
        rows.append([f"{ms}", f"{0.8 * 1600 * 1000 / ms * THINK_MS / 1000:.2f}", *parts])
    return table(("mean task, ms", "thinking per second, s", "late binding", "one scheduler"), rows)


def tables(out: Path, seeds: Sequence[int], long_seeds: int, span: float, jobs: int = 1) -> dict[str, Any]:
    """Everything measured, by the names that the page has for it. long_seeds: seeds of METHODS over LOADS."""
    main, aside, huge = responses(span), side(), large(span)
    cells = [
        *((case, seed) for seed in seeds for case in (*ZERO_WAIT.values(), *aside.values())),
        *((case, seed) for seed in seeds[:long_seeds] for case in main.values()),
        *((case, seed) for seed in seeds[: min(3, long_seeds)] for case in huge.values()),
    ]
    queries = {
        method: measured(out, Ran, measure_tpch, [(case, QUERIES, seed) for seed in seeds], jobs)
        for method, case in TPCH.items()
    }
    kept = dict(zip(cells, measured(out, Ran, measure, cells, jobs), strict=True))

    def of(case: Case, number: int | None = None) -> list[Ran]:
        return [kept[case, seed] for seed in seeds[:number]]

    def part(name: str) -> dict[Any, list[Ran]]:
        return {row: of(case) for (where, row), case in aside.items() if where == name}

    found = {key: of(case, long_seeds) for key, case in main.items()}
    large_runs = {method: of(case, min(3, long_seeds)) for method, case in huge.items()}
    head = ("mean, ms", "p99, ms")
    return {
        "means": response_table(found),
        "p99s": response_table(found, "p99_ms"),
        "messages": message_table(found, part("cancellation")[False]),
        "waits": wait_table({method: of(case) for method, case in ZERO_WAIT.items()}),
        "large": row_table(("method", *head), large_runs),
        "ratios": row_table(("probes per task", *head, "messages per task"), part("ratio"), messages=True),
        "durations": duration_table(part("durations")),
        "long": row_table(("method", *head), part("long")),
        "users": row_table(("workers' queues", *head), part("users")),
        "hosts": row_table(("method", *head), part("hosts")),
        "seeds": len(seeds),
        "long_seeds": len(seeds[:long_seeds]),
        "large_seeds": len(seeds[: min(3, long_seeds)]),
        "span": f"{span:g}",
        "large_span": f"{span / 8:g}",
        "longest_span": f"{5 * span:g}",
        "think": THINK_MS,
        "relaxation": f"{relaxation(4, 0.95):.0f}",
        "tpch": tpch_table(queries),
        "queries": QUERIES,
        "above": lambda method: above_ideal(found[method, 0.8], found[IDEAL, 0.8]),
        "tpch_above": lambda method: above_ideal(queries[method], queries[IDEAL]),
        "beside_formula": lambda load: over_seeds(
            [100 * (run.mean_ms / (MEAN_MS * longest(4, load, 50)) - 1) for run in found["random", load]], 1
        ),
    }


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/sparrow"),
    docs: Annotated[Path, typer.Option(help="folder whose results-sparrow.in.md is to become a page")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds")] = 10,
    long_seeds: Annotated[int, typer.Option(min=2, help="seeds of the long runs: 20 CPU minutes each")] = 10,
    span: Annotated[float, typer.Option(min=1, help="mean task times of the long runs")] = SPAN,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Measure everything and write the page: about four CPU hours for ten seeds."""
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    write_file(docs / f"{NAME}.md", filled(template, **tables(out, range(1, seeds + 1), long_seeds, span, jobs)))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
