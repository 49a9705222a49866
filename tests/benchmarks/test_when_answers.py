"""The mix of DagJobs whose answers are measured, and how answers are held against the ends that came."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.kubernetes.when_load import LoadedJob, LoadedStage, dagjob_of, load, nodes_for, run_of
from benchmarks.kubernetes.when_scores import (
    Answered,
    Ended,
    Line,
    Ran,
    Score,
    Whole,
    held_by_bootstrap,
    lines_of,
    page,
    rows,
    rules,
    scored,
    summary,
    told,
)
from operators.client import stamp
from rm_emulator.issues import InvalidInput
from schedulers.core.resources import Resources
from schedulers.objects.dagjob import DagJob, ExpectedStatus, ExpectedTimes, core_job
from schedulers.objects.names import RUN_SECONDS

#: A moment, ms since the epoch.
NOW = 1_790_000_000_000
STAGE = LoadedStage(tasks=4, cpu=1, mean_s=20, claimed_s=40)


def job(name: str, recurring: str = "") -> LoadedJob:
    return LoadedJob(name, recurring, "ann", 0.0, (STAGE,))


def expected(*rest_s: float) -> ExpectedStatus:
    return ExpectedStatus(True, stamp(NOW), None, ExpectedTimes(*(stamp(NOW + round(1000 * s)) for s in rest_s)))


def answered(
    name: str, answer: ExpectedStatus | None = None, *, age_s: float = 100, ended: int = 0, at: int = NOW
) -> Answered:
    created = at - round(1000 * age_s)
    return Answered(at, name, f"space/{name}.12345678", created, created + 10_000, 4, ended, answer)


def ended(name: str, rest_s: float, *, succeeded: bool = True) -> Ended:
    return Ended(name, NOW - 100_000, NOW + round(1000 * rest_s), succeeded)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 80), st.integers(0, 20), st.integers(0, 1000))
def test_every_job_of_a_mix_can_be_submitted_and_half_of_them_recur(count: int, long: int, seed: int) -> None:
    mix = load(count, long, 6, seed)
    assert len({each.name for each in mix}) == count + long
    assert sum(each.recurring != "" for each in mix) == -(-count // 2) + -(-long // 2)
    assert [each.at_s for each in mix] == sorted(each.at_s for each in mix)
    for each in mix:
        made = core_job(msgspec.convert(dagjob_of(each, "space"), DagJob), Resources(("cpu", "memory", "pods")))
        assert made.name == (each.recurring or each.name)
        assert [stage.tasks for stage in made.stages] == [stage.tasks for stage in each.stages]
    assert nodes_for(mix, cpus=8, load=1.0) >= nodes_for(mix, cpus=8, load=2.0) >= 2


def test_long_jobs_leave_the_rest_of_the_mix_alone() -> None:
    short, both = load(60, 0, 6, 1), load(60, 14, 6, 1)
    assert [each for each in both if each in short] == short
    long = [each for each in both if each not in short]
    assert len(long) == 14
    # Each takes its stages one after the other: so most ends are more than five minutes ahead.
    assert np.median([sum(stage.mean_s for stage in each.stages) for each in long]) > 300


def test_run_times_vary_by_half_their_mean_and_more_and_differ_from_claims() -> None:
    mix = load(60, 0, 6, 1)
    truth = [
        run_of(1, each, number, index, 1)[0]
        for each in mix
        for number, stage in enumerate(each.stages)
        for index in range(stage.tasks)
    ]
    assert np.std(truth) / np.mean(truth) >= 0.5
    wrong = [stage.claimed_s / stage.mean_s for each in mix for stage in each.stages]
    assert min(wrong) < 0.6
    assert max(wrong) > 1.7
    (body,) = dagjob_of(job("a"), "space")["spec"]["stages"]
    assert body["template"]["metadata"]["annotations"] == {RUN_SECONDS: "40"}


def test_a_tenth_of_the_tasks_fails_once_and_no_task_twice() -> None:
    large = LoadedJob("large", "", "ann", 0.0, (msgspec.structs.replace(STAGE, tasks=2000),))
    first, second = ([run_of(1, large, 0, index, attempt) for index in range(2000)] for attempt in (0, 1))
    failed = [index for index, (_, code) in enumerate(first) if code]
    assert 0.08 < len(failed) / 2000 < 0.12
    assert all(code == 0 for _, code in second)
    assert all(first[index][0] <= second[index][0] for index in failed)
    # The law that `told` is told of.
    mean_s, noise = STAGE.all_tries
    tries = [b if not failed else a + b for (a, failed), (b, _) in zip(first, second, strict=True)]
    assert np.mean(tries) == pytest.approx(mean_s, rel=0.05)
    assert np.std(tries) / np.mean(tries) == pytest.approx(math.sqrt(math.expm1(noise)), rel=0.1)


def test_an_answer_that_leaves_a_time_open_or_is_not_there_is_none() -> None:
    assert told(answered("a", expected(40, 60, 90))) == (40, 60, 90)
    assert told(answered("a")) is None
    assert told(answered("a", ExpectedStatus(False, stamp(NOW)))) is None
    later = ExpectedTimes(stamp(NOW), stamp(NOW + 1000), None)
    assert told(answered("a", ExpectedStatus(True, stamp(NOW), None, later))) is None


def test_simple_rules_answer_from_the_queue_and_from_progress() -> None:
    live = [answered("a", age_s=400, ended=1), answered("b", age_s=90, ended=0)]
    # Two jobs in the last two minutes; a third ended before.
    ends = [NOW - 300_000, NOW - 100_000, NOW - 1000]
    assert dict(rules(live[1], live, ends))["drain_rate"] == (120, 120, 120)
    # 390 s since the start for one of four tasks.
    assert dict(rules(live[0], live, ends)) == {"drain_rate": (60, 60, 60), "progress": (1170, 1170, 1170)}
    assert dict(rules(live[1], live, [])) == {"drain_rate": None, "progress": None}


def test_answers_are_held_against_the_ends_that_came() -> None:
    lines: list[Line] = [
        *(job(name, "nightly") for name in ("early", "late")),
        *(job(name) for name in ("short", "broken", "open")),
        ended("early", -50),
        *(answered(name, expected(40, 60, 90)) for name in ("late", "short", "broken", "open")),
        ended("late", 80),
        ended("short", 29),
        ended("broken", 100, succeeded=False),
        Whole(2, 8, 1),
    ]
    played = [(NOW, "told", {"space/late.12345678": (70.0, 80.0, 85.0), "space/short.12345678": (1.0, 2.0, 3.0)})]
    found = scored(lines, played)
    assert {(each.answerer, each.job) for each in found} == {(a, "late") for a in ("status", "told", "drain_rate")}
    assert all(each.again and each.came_s == 80 and not each.more for each in found)


def score(answerer: str, name: str, came_s: float, answer: tuple[float, float, float], *, again: bool) -> Score:
    return Score(answerer, name, NOW, came_s, answer, again, more=False)


def test_a_table_has_a_part_for_each_horizon_and_for_first_and_further_runs() -> None:
    found = [
        score("status", "a", 50, (40, 60, 90), again=False),
        score("status", "b", 100, (40, 60, 90), again=True),
        score("told", "a", 50, (50, 60, 70), again=False),
    ]
    made = {(row[0], row[1]): row[2:] for row in rows(found)}
    assert made["all", "status"][:2] == ["2", "50"]
    assert made["30 s to 1 min", "status"] == [
        "1",
        "100",
        "0",
        f"{(1 + 5 + 4) / 3:.1f}",
        f"{(1 + 5 + 4) / (0 + 5 + 2):.2f}",
        "20",
    ]
    assert made["again", "status"] == ["1", "0", "100", f"{(6 + 20 + 9) / 3:.1f}", "-", "40"]
    assert ("5 to 20 min", "status") not in made
    assert ("again", "told") not in made
    assert made["none more", "status"] == made["all", "status"]
    assert ("arrivals", "status") not in made


def test_the_share_that_holds_is_less_certain_the_more_answers_are_for_one_job() -> None:
    names = [f"job-{number}" for number in range(40)]
    answers = {name: (40.0, 60.0, 90.0) if number % 5 else (1.0, 2.0, 3.0) for number, name in enumerate(names)}
    apart = [score("status", name, 50, answers[name], again=False) for name in names]
    low, high = held_by_bootstrap(apart)
    assert 0.6 < low < 0.8 < high < 0.95
    # The same answers, as if they were for four jobs.
    four = [each._replace(job=f"job-{number % 4}") for number, each in enumerate(sorted(apart, key=lambda s: s.held))]
    together = [
        each._replace(job=f"job-{number // 10}") for number, each in enumerate(sorted(apart, key=lambda s: s.held))
    ]
    widths = [high - low for low, high in map(held_by_bootstrap, (four, together))]
    assert widths[0] < widths[1]


def test_a_file_of_lines_is_read_back_and_one_of_an_interrupted_run_is_refused(tmp_path: Path) -> None:
    file, whole = tmp_path / "run.jsonl", Whole(2, 8, 1)
    lines: list[Line] = [
        job("a"),
        Ran("a", 0, 0, 0, NOW, 10.0, 0),
        Ran("a", 0, 1, 0, NOW, 30.0, 0),
        answered("a"),
        ended("a", 60),
        whole,
    ]
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert lines_of(file) == lines
    assert "variation of run times 0.50" in summary(lines)
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines[:-1]))
    with pytest.raises(InvalidInput, match="interrupted"):
        lines_of(file)
    file.write_text(json.dumps({"type": "ended"}))
    with pytest.raises(InvalidInput, match=r"run\.jsonl:1: "):
        lines_of(file)


def test_runs_of_several_seeds_are_scored_together_and_their_jobs_are_kept_apart(tmp_path: Path) -> None:
    memories = tmp_path / "run.jsonl.memories"
    memories.touch()
    lines: list[Line] = [job("a"), Ran("a", 0, 0, 0, NOW, 10.0, 0), answered("a", expected(40, 60, 90)), ended("a", 80)]
    run = [*lines, Whole(2, 8, 1)]
    made = page([(run, memories), (run, memories)], lambda text: None)
    assert "by bootstrap over 2 jobs" in made
    assert re.search(r"^all +status +2 +100 +100 ", made, re.MULTILINE)


@pytest.mark.slow
def test_wrong_words_end_with_a_line_and_start_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.kubernetes.when_answers",
        "--out",
        str(tmp_path / "run"),
        "--jobs",
        "0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "--jobs 0: must be 1 or more\n")
    assert not list(tmp_path.iterdir())
