"""Group `engine`: finished tasks per second, memory, and how the cost of a task grows with the length of a run."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks import setups
from benchmarks.reference import paired, quiet
from benchmarks.rows import Row, benchmark
from benchmarks.setups import Ran, Setup

_REPETITIONS: Final = 3
_HELP_RUNS: Final = 7
_COMMAND_RUNS: Final = 5
#: Commands that run nothing; each should be over before its user looks up.
_COMMANDS: Final = (("check", "demo"), ("policies", "gs"), ("schema",), ("explain", "out/hello", "report"))
#: DSS (epfl-labos/DSS) measured beside bare SimPy on one machine: 10,000 tasks/s and a million events/s.
_DSS: Final = 0.01


@benchmark("tpch_executor_replay", "engine")
def tpch_executor_replay(tiny: bool) -> Iterator[Row]:
    """200 TPC-H jobs with measured waves on 50 executors kept by jobs, policy `fair` by slots, profile `events`."""
    yield _against_simpy("tpch_executor_replay", setups.tpch_executors(5 if tiny else 200), ">= 0.095", tiny)


@benchmark("heartbeat_150_nodes", "engine")
def heartbeat_150_nodes(tiny: bool) -> Iterator[Row]:
    """1,250 jobs of `2sigma-like`, load 1.05, on 150 one-task nodes with heartbeats of 1 s, `gs` with `slearn`."""
    yield _against_simpy("heartbeat_150_nodes", setups.heartbeats_150(20 if tiny else 1250), ">= 0.03", tiny)


@benchmark("yarn_heartbeats", "engine")
def yarn_heartbeats(tiny: bool) -> Iterator[Row]:
    """The sizes at which DSS was measured: 100 nodes of 32 cores, and ten times as many tasks on them."""
    small, large = (setups.yarn_100_nodes(jobs) for jobs in ((4, 8) if tiny else (100, 1000)))
    yield _against_simpy("yarn_heartbeats_22k", small, f">= {3 * _DSS:g}", tiny, f"DSS is at {_DSS:g}")
    costs: list[float] = []
    for _ in range(1 if tiny else 2):
        # The small run before and after: the machine's own drift must not look like a slow-down.
        before, ran, after = setups.run(small), setups.run(large), setups.run(small)
        costs.append(_task_us(ran) / statistics.fmean((_task_us(before), _task_us(after))))
    yield Row(
        name="yarn_heartbeats_245k_slowdown",
        value=statistics.median(costs),
        unit="x",
        target="<= 1.5",
        note=f"cost of a task in a run of {large.workload.tasks} tasks, in one of {small.workload.tasks}; DSS: 4",
    )


@benchmark("capacity_47k", "engine")
def capacity_47k(tiny: bool) -> Iterator[Row]:
    """YARN's CapacityScheduler, in whose books every beat counts, beside a policy that lets idle nodes sleep."""
    jobs = 5 if tiny else 470
    fifo, capacity = (setups.capacity_47k(policy, jobs) for policy in ("fifo", "capacity"))
    measured, references, ratios = [], [], []
    for _ in range(1 if tiny else _REPETITIONS):
        with quiet():
            before, ran, after = setups.run(fifo), setups.run(capacity), setups.run(fifo)
        measured.append(ran.cpu_s)
        references.append((before.cpu_s + after.cpu_s) / 2)
        ratios.append(measured[-1] / references[-1])
    yield Row(
        name="capacity_47k",
        value=statistics.median(ratios),
        unit="x",
        target="<= 2",
        note=f"CPU time of {ran.tasks} tasks and {ran.facts} facts under `capacity`, {statistics.median(measured):.1f} "
        f"s, to that under `fifo`, {statistics.median(references):.1f} s",
    )


@benchmark("memory_per_million_tasks", "engine")
def memory_per_million_tasks(tiny: bool) -> Iterator[Row]:
    """Peak memory of two runs with recorder and log, each in a process of its own, and the slope between them."""
    few, many = (1_000, 3_000) if tiny else (100_000, 300_000)
    first, second = _measured("benchmarks.memory", few), _measured("benchmarks.memory", many)
    slope = (second["peak_mb"] - first["peak_mb"]) / (second["tasks"] - first["tasks"]) * 1e6
    yield Row(
        name="memory_per_million_tasks",
        value=slope,
        unit="MB",
        reference=first["peak_mb"],
        target="<= 100",
        note=f"growth of the peak from {first['tasks']:.0f} to {second['tasks']:.0f} tasks, extrapolated; "
        "reference: peak MB of the smaller run",
    )


@benchmark("large_run", "engine")
def large_run(tiny: bool) -> Iterator[Row]:
    """A million tasks of `2sigma-like` on 10,000 nodes, `gs` with `slearn`, with summary and report, in a process."""
    ran = _measured("benchmarks.large_run", 2 if tiny else 580)
    note = f"a run of {ran['tasks']:.0f} tasks with its report"
    yield Row(name="large_run_cpu_s", value=ran["cpu_s"], unit="s", target="<= 45", note=f"CPU time of {note}")
    yield Row(name="large_run_memory", value=ran["peak_mb"], unit="MB", target="<= 400", note=f"peak of {note}")


@benchmark("fan_in", "engine")
def fan_in(tiny: bool) -> Iterator[Row]:
    """Summaries of two runs of many small cells, each in a process of its own: CPU time and peak memory."""
    few, many = (30, 300) if tiny else (600, 3_000)
    first, second = _measured("benchmarks.fan_in", few), _measured("benchmarks.fan_in", many)
    yield Row(
        name="fan_in_cells",
        value=second["cells"] / second["cpu_s"],
        unit="cells/s",
        reference=first["cells"] / first["cpu_s"],
        ratio=second["cells"] / second["cpu_s"] / (first["cells"] / first["cpu_s"]),
        target=">= 0.8",
        note=f"summary of {second['cells']:.0f} cells of three jobs; reference: of {first['cells']:.0f} cells; "
        "a ratio below 1: the more cells, the more each costs",
    )
    yield Row(
        name="fan_in_memory",
        value=(second["peak_mb"] - first["peak_mb"]) / (second["cells"] - first["cells"]) * 10_000,
        unit="MB",
        reference=first["peak_mb"],
        target="<= 300",
        note=f"growth of the peak from {first['cells']:.0f} to {second['cells']:.0f} cells, extrapolated to 10,000; "
        "reference: peak MB of the smaller run",
    )


@benchmark("cli_help_ms", "engine")
def cli_help_ms(tiny: bool) -> Iterator[Row]:
    """`rm-emulator --help`, beside an interpreter that does nothing."""
    runs = 1 if tiny else _HELP_RUNS
    bare = min(_wall_ms("-c", "pass") for _ in range(runs))
    shown = min(_wall_ms("-m", "rm_emulator", "--help") for _ in range(runs))
    note = f"best of {runs}; reference: a bare interpreter"
    yield Row(name="cli_help_ms", value=shown, unit="ms", reference=bare, target="<= 200", note=note)


@benchmark("command_cpu_s", "engine")
def command_cpu_s(tiny: bool) -> Iterator[Row]:
    """Commands that only read, each in a new process."""
    runs = 1 if tiny else _COMMAND_RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Compiled modules, as an installation has them, also where the environment forbids Python to write any.
        environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environ |= {
            "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        _cpu_s(folder, environ, "run", "hello", "--jobs", "1")
        for command in _COMMANDS:
            _cpu_s(folder, environ, *command)
            took = min(_cpu_s(folder, environ, *command) for _ in range(runs))
            note = f"`rm-emulator {' '.join(command)}`, CPU time, the least of {runs}"
            yield Row(name=f"command_cpu_s/{command[0]}", value=took, unit="s", target="<= 0.7", note=note)


def _against_simpy(name: str, setup: Setup, target: str, tiny: bool, also: str = "") -> Row:
    runs: list[Ran] = []

    def measure() -> float:
        runs.append(setups.run(setup))
        return runs[-1].tasks_per_s

    found = paired(measure, repetitions=1 if tiny else _REPETITIONS, facts=lambda: runs[-1].facts)
    note = f"{runs[-1].tasks} tasks, {runs[-1].facts} facts; reference: bare SimPy events/s, as many events"
    return Row(
        name=name,
        value=found.measured,
        unit="tasks/s",
        reference=found.reference,
        ratio=found.ratio,
        target=target,
        note=f"{note}; {also}" if also else note,
    )


def _task_us(ran: Ran) -> float:
    return ran.cpu_s / ran.tasks * 1e6


def _measured(module: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", module, str(size)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603 (our own module)
    return found


def _cpu_s(folder: Path, environ: Mapping[str, str], *command: str) -> float:
    """CPU time of a command of rm-emulator, of user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = [sys.executable, "-m", "rm_emulator", *command]
    subprocess.run(arguments, check=True, capture_output=True, cwd=folder, env=environ)  # noqa: S603 (our own program)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _wall_ms(*arguments: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)  # noqa: S603 (our own interpreter)
    return (time.perf_counter() - begun) * 1000
