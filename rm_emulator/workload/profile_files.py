"""The TPC-H profiles of Decima as files: the released folder of NumPy pickles, or a JSON file of the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from rm_emulator.files import write_file
from rm_emulator.issues import Issue, Issues, TraceError
from rm_emulator.workload import npy
from rm_emulator.workload.profiles import JobProfile, StageProfile, TpchProfiles, builtin_profiles, measured_stage
from rm_emulator.workload.tables import one, read_bytes
from schedulers.core.errors import InvalidJob
from schedulers.core.model import Stage, topological_order

#: Where the measured durations were released.
RELEASE: Final = "hongzimao/decima-sim, spark_env/tpch"
_SIZE = re.compile(r"(\d+)g")
_FILE = re.compile(r"adj_mat_(\d+)\.npy")
_WAVES: Final = ("fresh_durations", "first_wave", "rest_wave")
_MAX_MS: Final = 10**9

Durations = dict[int, list[int]]


class _JsonStage(msgspec.Struct, frozen=True):
    tasks: Annotated[int, msgspec.Meta(ge=1)]
    fresh_durations: Durations
    first_wave: Durations
    rest_wave: Durations


class _JsonJob(msgspec.Struct, frozen=True):
    query: int
    size: Annotated[str, msgspec.Meta(pattern=r"^\d+g$")]
    edges: list[tuple[int, int]]
    stages: Annotated[list[_JsonStage], msgspec.Meta(min_length=1)]


class _JsonFile(msgspec.Struct, frozen=True):
    source: str
    queries: list[_JsonJob]


def load_profiles(path: Path | str | None = None) -> TpchProfiles:
    """The built-in summary, or full profiles from `path`: the released folder, or a JSON file of them.

    The last file read is kept while unchanged on disk. Raises TraceError for anything else.
    """
    if path is None:
        return builtin_profiles()
    path = Path(path)
    if not path.is_file():
        return read_profiles(path)
    now = path.stat()
    return _kept(path, now.st_ino, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=1)
def _kept(path: Path, number: int, changed_ns: int, size: int) -> TpchProfiles:
    return read_profiles(path)


def summarise(source: Path, output: Path) -> TpchProfiles:
    """Write the summary of the full profiles at `source` to `output`, at once or not at all."""
    summary = load_profiles(source).summarised()
    write_file(output, summary.to_bytes())
    return summary


def read_profiles(path: Path) -> TpchProfiles:
    """Full profiles from the released folder, from a JSON file of them, or from a file of our own.

    Raises TraceError with every mistake found.
    """
    if path.is_dir():
        return _from_folder(path)
    data = read_bytes(path)
    if data.lstrip()[:10].startswith(b'{"format"'):
        try:
            return TpchProfiles.from_bytes(data)
        except ValueError as error:
            raise one(path, str(error)) from None
    return _from_json(path, data)


def _from_json(path: Path, data: bytes) -> TpchProfiles:
    try:
        file = msgspec.json.decode(data, type=_JsonFile)
    except msgspec.MsgspecError as error:
        raise one(path, f"not a JSON file of TPC-H profiles: {error}") from None
    issues = Issues(str(path))
    jobs = []
    for query in file.queries:
        where = f"query {query.query} at {query.size}"
        stages = [(s.tasks, s.fresh_durations, s.first_wave, s.rest_wave) for s in query.stages]
        jobs.append(_job(query.query, int(query.size[:-1]), query.edges, stages, issues, where))
    return _collected(jobs, file.source, issues)


def _from_folder(path: Path) -> TpchProfiles:
    """The folder spark_env/tpch of the release: a folder per size, two files per query."""
    mistakes: list[Issue] = []
    jobs: list[JobProfile | None] = []
    sizes = sorted((int(m[1]), child) for child in path.iterdir() if (m := _SIZE.fullmatch(child.name)))
    for size, folder in sizes:
        queries = sorted((int(m[1]), file) for file in folder.iterdir() if (m := _FILE.fullmatch(file.name)))
        for query, adjacency in queries:
            issues = Issues(str(folder / f"task_duration_{query}.npy"))
            try:
                jobs.append(_from_files(size, query, adjacency, issues))
                issues.check()
            except TraceError as error:
                mistakes.extend(error.issues)
    if mistakes:
        raise TraceError(mistakes)
    if not jobs:
        raise one(path, "no folder such as 2g with files such as adj_mat_1.npy in it (give the folder spark_env/tpch)")
    return TpchProfiles([job for job in jobs if job], source=RELEASE)


def _from_files(size: int, query: int, adjacency: Path, issues: Issues) -> JobProfile | None:
    matrix = npy.read_numbers(adjacency)
    by_stage = npy.read_object(adjacency.with_name(f"task_duration_{query}.npy"))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise one(adjacency, f"a matrix of shape {matrix.shape} (it should be square: stages x stages)")
    stages = len(matrix)
    if not isinstance(by_stage, dict) or sorted(by_stage, key=str) != sorted(range(stages), key=str):
        issues.add(f"it should be a dict with the stages 0 to {stages - 1} of {adjacency.name} as keys")
        return None
    edges = [(i, j) for i in range(stages) for j in range(stages) if matrix[i, j] == 1]
    measured = []
    for stage in range(stages):
        waves = _waves(by_stage[stage], issues, f"stage {stage}")
        if waves is not None:
            measured.append((_tasks(*waves[1:]), *waves))
    return _job(query, size, edges, measured, issues, "") if len(measured) == stages else None


def _waves(stage: Any, issues: Issues, where: str) -> tuple[Durations, Durations, Durations] | None:
    """The three waves of a stage in the released form: dicts of lists of whole numbers of ms; None for another form."""
    if not isinstance(stage, dict) or not all(isinstance(stage.get(wave), dict) for wave in _WAVES):
        issues.add(f"{where}: it should be a dict of {', '.join(_WAVES)}")
        return None
    for wave in _WAVES:
        for level, durations in stage[wave].items():
            if not isinstance(level, int) or not isinstance(durations, list):
                issues.add(f"{where} {wave}: it should map numbers of executors to lists of durations")
                return None
            if not all(type(duration) is int for duration in durations):
                issues.add(f"{where} {wave} at {level} executors: durations should be whole numbers of ms")
                return None
    return stage["fresh_durations"], stage["first_wave"], stage["rest_wave"]


def _tasks(first: Durations, rest: Durations) -> int:
    """Number of tasks of a stage: the first and later waves of any level, before cleaning (job_generator.py)."""
    level = next(iter(first), 0)
    return len(first.get(level, ())) + len(rest.get(level, ()))


def _job(
    query: int,
    size: int,
    edges: Iterable[tuple[int, int]],
    stages: list[tuple[int, Durations, Durations, Durations]],
    issues: Issues,
    where: str,
) -> JobProfile | None:
    """The profile of a job, or None with the mistakes noted."""
    prefix = f"{where}: " if where else ""
    before = issues.count
    parents: list[list[int]] = [[] for _ in stages]
    for parent, child in edges:
        if 0 <= parent < len(stages) and 0 <= child < len(stages):
            parents[child].append(parent)
        else:
            issues.add(f"{prefix}an edge from stage {parent} to {child}, but there are {len(stages)} stages")
    made: list[StageProfile] = []
    for index, (tasks, *waves) in enumerate(stages):
        problem = _problem(tasks, waves)
        if problem:
            issues.add(f"{prefix}stage {index}: {problem}")
        else:
            made.append(measured_stage(tasks, parents[index], *waves))
    if issues.count > before:
        return None
    try:
        topological_order(
            tuple(Stage(name=str(i), tasks=1, demand=(1,), parents=s.parents) for i, s in enumerate(made))
        )
    except InvalidJob as error:
        issues.add(f"{prefix}{error}")
        return None
    return JobProfile(query=query, size_gb=size, stages=tuple(made))


def _problem(tasks: int, waves: list[Durations]) -> str:
    """The reason that makes a stage unusable, or ''."""
    durations = [duration for wave in waves for values in wave.values() for duration in values]
    if tasks < 1 or not durations or not waves[1]:
        return f"{tasks} tasks and {len(durations)} durations (at least one of each is needed)"
    if min(durations) < 0 or max(durations) > _MAX_MS:
        worst = min(durations) if min(durations) < 0 else max(durations)
        return f"a duration of {worst} ms (0 to {_MAX_MS:,})"
    return ""


def _collected(jobs: Iterable[JobProfile | None], source: str, issues: Issues) -> TpchProfiles:
    made = [job for job in jobs if job is not None]
    keys: set[str] = set()
    for job in made:
        if job.key in keys:
            issues.add(f"query {job.query} at {job.size_gb}g is there twice")
        keys.add(job.key)
    if not made and not issues.count:
        issues.add("no queries in it")
    issues.check()
    return TpchProfiles(made, source=source)
