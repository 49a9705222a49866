"""Known-answer cases: what passes, what fails, what is skipped and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.known_answers import runner
from rm_emulator.known_answers.checks import Check

YARN = """
    A01 A03 A05 A07 A09 A11 A13 A15 B01 B03 C01 C03 C05 C07 C09 C10 C11 C11/n_resources D01 D02
    E01 E03 E05 E07 E09 E10 F01 F03 F05 F07 F09 F11 F13 F15 F17 G01 G02 G02/reset G04 G06 G08
    H01 H03 H04 H06 H08 I01 I03 I05 I07 I09 I11
"""
SHARED = Path(__file__).parents[2] / "../shared/cases"
H01 = """
version: 1
cases:
- id: H
  kind: cs_script
  unit: GB
  script:
  - {node: {id: h1, mem: 80}}
  - {submit: {app: a1, queue: default, am: [1]}}
  - {am_running: a1}
  - {ask: {app: a1, mem: 1, n: 5, at: '*'}}
  - {hb: [h1]}
  - {expect: {live: {a1: 2}}}
  - {set: {per-node-heartbeat.maximum-offswitch-assignments: 3}}
  - {hb: [h1]}
  - {expect: {live: {a1: LIVE}}}
"""

FORK = """
instances:
- {name: fork, model: unrelated_machines_with_comm, exec: [[4, 4], [6, 6], [6, 6]], edges: [[0, 1, 20], [0, 2, 20]],
   expected: {HEFT: 16}, HEFT_schedule: [[0, 4, 0, 0], [4, 10, 1, 0], [10, 16, 2, 0]],
   optimal: {no_duplication: 16, with_duplication: 10,
             with_duplication_schedule: [[0, 4, 0, 0], [0, 4, 0, 1], [4, 10, 1, 1], [4, 10, 2, 0]]}}
"""


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[int, list[str]]:
    file = tmp_path / "cases.yaml"
    file.write_text(text)
    code = runner.main([file])
    return code, capsys.readouterr().out.splitlines()


def test_a_right_answer_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, capsys, H01.replace("LIVE", "5")) == (0, ["PASS H"])


def test_a_wrong_answer_fails_with_both_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(tmp_path, capsys, H01.replace("LIVE", "4"))
    assert (code, lines) == (1, ["FAIL H: expected {'live': {'a1': 4}} got {'live': {'a1': 5}}"])


def test_a_row_that_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "cases:\n- {id: D, kind: normalise_mem, rows: [[0, 1024, 8192, 1024], [1034, 1024, 8192, 1034]]}\n"
    assert run(tmp_path, capsys, text) == (
        1,
        ["FAIL D: expected [1034, 1024, 8192, 1034] got [1034, 1024, 8192, 2048]"],
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("unit: GB", "units: GB", "key 'units' of kind cs_script not supported"),
        ("kind: cs_script", "kind: cs_scripts", "kind cs_scripts not supported"),
        ("{hb: [h1]}", "{heartbeat: [h1]}", "step 'heartbeat' is not supported"),
        ("expect: {live:", "expect: {alive:", "expectation 'alive' is not supported"),
        ("mem: 80", "mem: 80, gpu: 1", "key of a node 'gpu' is not supported"),
        ("submit: {app: a1,", "submit: {app: a1, weight: 2,", "key of an application 'weight' is not supported"),
        ("per-node-heartbeat.maximum-off", "per-heartbeat.maximum-off", "setting 'per-heartbeat.maximum-off"),
    ],
)
def test_what_is_not_known_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, why: str
) -> None:
    assert old in H01
    code, lines = run(tmp_path, capsys, H01.replace(old, new).replace("LIVE", "5"))
    assert code == 0
    assert len(lines) == 1
    assert lines[0].startswith(f"SKIP H: {why}")


def test_an_instance_that_is_not_run_is_skipped_check_by_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "instances:\n- {name: dag, model: machines, expected: {HEFT: 80, CPOP: 86}, optimal: 70}\n"
    assert run(tmp_path, capsys, text) == (
        0,
        [f"SKIP dag/{name}: kind machines not supported" for name in ("HEFT", "CPOP", "optimal")],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected a mapping"),
        ("cases: 3", "expected a list of cases, found 3"),
        ("cases:\n- {id: A}\n", "cases.yaml:2:3 cases\\[0\\]: case without `kind`"),
        ("cases:\n- {kind: x, id: A}\n- {kind: x, id: A}\n", "cases.yaml:3:17 .*two cases are called 'A'"),
        ("case: []", "unknown key 'case'"),
        ("cases:\n- {id: A, kind: normalise_mem}\n", "case 'A': kind normalise_mem needs a key 'rows'"),
        ("cases:\n- {id: A, kind: normalise_mem, rows: [1]}\n", "case 'A': does not have the form"),
        ("cases:\n- {id: A, id: B, kind: x}\n", "given twice"),
        ("cases: [", "not YAML"),
        (FORK.replace("[4, 4]", "[4, .nan]"), "case 'fork': .*the time of task 0 on machine 1 is nan"),
        (FORK.replace("[0, 1, 20]", "[0, 1, -20]"), "case 'fork': .*the edge 0 -> 1 moves -20"),
        (FORK.replace("[0, 2, 20]", "[0, 3, 20]"), "case 'fork': .*an edge 0 -> 3 leads to task 3"),
        (FORK.replace("[0, 2, 20]", "[1, 0, 20]"), "case 'fork': .*the edges form a cycle"),
    ],
)
def test_a_malformed_file_is_bad_input(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        runner.main([file])


def test_numbers_are_compared_within_their_tolerance() -> None:
    assert Check("", {"tasks": [3, 2.0]}, {"tasks": [3.005, 2]}, 0.01).holds
    assert not Check("", [3, 2], [3.02, 2], 0.01).holds
    assert not Check("", [3, 2], [3], 0.01).holds


def collected(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is printed for a file of collected cases, none of which may fail."""
    file = SHARED / name
    if not file.is_file():
        pytest.skip(f"the collected cases are not beside this repository ({file})")
    assert runner.main([file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(("PASS ", "SKIP ")) for line in lines)
    return lines


def test_collected_cases_of_yarn(capsys: pytest.CaptureFixture[str]) -> None:
    lines = collected("yarn.yaml", capsys)
    assert [line for line in lines if line.startswith("PASS")] == [f"PASS {case}" for case in YARN.split()]


def test_collected_cases_that_were_open(capsys: pytest.CaptureFixture[str]) -> None:
    lines = collected("open.yaml", capsys)
    assert lines == [
        "PASS hdrf-epsilon-needs-rescale/policy_hdrf",
        "PASS hdrf-epsilon-needs-rescale/policy_ignore_blocked_only",
        "PASS I06",
    ]


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_all_collected_cases_of_dags(capsys: pytest.CaptureFixture[str]) -> None:
    lines = collected("dag.yaml", capsys)
    assert len(lines) == 123
    assert all(line.startswith("PASS ") for line in lines)
    assert [line for line in lines if line.endswith("/witness")] == [
        "PASS topcuoglu10/optimal/with_duplication/witness",
        "PASS hetero_speed8/optimal/with_duplication/witness",
    ]


def test_a_value_of_an_instance_that_is_not_known_is_skipped_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = FORK.replace("optimal: {", "energy: 3, optimal: {fastest: 1, ").replace("HEFT: 16", "HEFT: 16, GDL: 9")
    _, lines = run(tmp_path, capsys, case)
    assert [line for line in lines if line.startswith("SKIP")] == [
        "SKIP fork/GDL: value GDL is not supported",
        "SKIP fork/optimal/fastest: value fastest is not supported",
        "SKIP fork/energy: key 'energy' of kind unrelated_machines_with_comm not supported",
    ]
    assert "PASS fork/HEFT" in lines


def test_a_schedule_that_is_none_fails_with_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(tmp_path, capsys, FORK.replace("[0, 4, 0, 0], [0, 4, 0, 1]", "[0, 4, 0, 0]"))
    what = "task 1 on machine 1 starts at 4, and what it needs of task 0 is there at 24"
    assert (code, [line for line in lines if line.startswith("FAIL")]) == (
        1,
        [f"FAIL fork/optimal/with_duplication_schedule: expected 10 got {what}"],
    )


def test_an_optimum_that_is_not_the_shortest_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = run(tmp_path, capsys, FORK.replace("no_duplication: 16", "no_duplication: 17"))
    assert "FAIL fork/optimal/no_duplication: expected 17 got 16.0" in lines


@pytest.mark.parametrize(
    ("kind", "case", "lines"),
    [
        (
            "rigid_multi_resource_dag",
            "capacity: [4, 4], exec: [3, 2, 2], demand: [[2, 1], [1, 3], [2, 2]], edges: [[0, 1]], "
            "expected: {critical_path: 5, best: 5}, optimal: {makespan: 5, start_times: [0, 3, 0]}",
            ["PASS x/critical_path", "SKIP x/best: value best", "PASS x/optimal", "PASS x/optimal/start_times"],
        ),
        (
            "rigid_width_on_10_slots",
            "slots: 10, items_width_duration: [[6, 2], [5, 1]], expected: {NFDH_no_edges: 4}, optimal: {no_edges: 3}, "
            "with_edges: {edges: [[0, 1]], DC_strip_partition: 3, optimal: 3}",
            [
                "FAIL x/NFDH_no_edges: expected 4 got 3",
                "PASS x/optimal",
                "PASS x/with_edges/DC_strip_partition",
                "PASS x/with_edges/optimal",
            ],
        ),
        (
            "unit_tasks_two_processors",
            "tasks: 3, exec: [1, 1, 1], processors: 2, edges: [[0, 2, 0]], "
            "expected: {CG_labels: [3, 2, 1], CG_makespan: 2}, optimal: {makespan: 2}",
            ["FAIL x/CG_labels: expected 2 got 1", "PASS x/CG_makespan", "PASS x/optimal"],
        ),
        (
            "stages_on_identical_slots",
            "slots: 4, stages: [{tasks: 40, duration: 3}, {tasks: 6, duration: 5}], stage_edges: [[0, 1]], "
            "expected: {plan_ahead: 40}, optimal: {makespan: 40}",
            ["PASS x/plan_ahead", "PASS x/optimal"],
        ),
        (
            "stages_on_identical_slots",
            "slots: 3, stages: [{tasks: 9, duration: 3}, {tasks: 7, duration: 4}], stage_edges: [], "
            "expected: {}, optimal: {makespan: 19}",
            ["SKIP x/optimal: optima of more than 14 tasks"],
        ),
        (
            "single_machine_nonpreemptive",
            "arrival_service: [[0, 3], [1, 6], [2, 1]], expected: {HRRN: {finish: [3, 10, 4]}}",
            ["PASS x/HRRN"],
        ),
    ],
)
def test_plans_of_a_dag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, case: str, lines: list[str]
) -> None:
    _, found = run(tmp_path, capsys, f"instances:\n- {{name: x, model: {kind}, {case}}}\n")
    assert len(found) == len(lines)
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=True)), found


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_all_collected_cases_of_fair_shares(capsys: pytest.CaptureFixture[str]) -> None:
    file = SHARED / "fairness.yaml"
    if not file.is_file():
        pytest.skip(f"the collected cases are not beside this repository ({file})")
    assert runner.main([file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 38
    assert all(line.startswith("PASS ") for line in lines)


SLOTS = """
version: 1
cases:
- {id: S, kind: sparrow_trace, policy: late_binding, workers: WORKERS, slots: 2, jobs: [
   {id: A, at: 0, tasks: [4, 3, 1], probes: [w0, w0, w1]}, {id: B, at: 1, tasks: [2], probes: [w0]}],
   expect: {starts: {A: [0, 0, 0], B: [AT]}}}
"""


@pytest.mark.parametrize(
    ("workers", "at"), [("[w0, w1]", 3), ("{w0: {slots: 3}, w1: {}}", 1)], ids=["every-worker", "one-with-its-own"]
)
def test_workers_of_sparrow_have_as_many_slots_as_a_case_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str, at: int
) -> None:
    text = SLOTS.replace("WORKERS", workers).replace("AT", str(at))
    assert run(tmp_path, capsys, text) == (0, ["PASS S/starts"])
