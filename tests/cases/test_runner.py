"""Known-answer cases: what passes, what fails, what is skipped and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.cases import runner
from rm_emulator.cases.kinds import Check
from rm_emulator.scenario.issues import InvalidInput

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


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("yarn.yaml", YARN.split()),
        (
            "dag.yaml",
            [
                "graham9/base/list_schedule",
                "graham9/four_processors/list_schedule",
                "graham9/all_times_minus_one/list_schedule",
                "graham9/drop_3_4_and_3_5/list_schedule",
                "single_machine5/FIFO",
                "single_machine5/SJF",
            ],
        ),
    ],
)
def test_some_collected_cases(name: str, passed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = SHARED / name
    if not file.is_file():
        pytest.skip(f"the collected cases are not beside this repository ({file})")
    assert runner.main([file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("PASS")] == [f"PASS {case}" for case in passed]
    assert all(line.startswith(("PASS ", "SKIP ")) for line in lines)


def test_all_collected_cases_of_fair_shares(capsys: pytest.CaptureFixture[str]) -> None:
    file = SHARED / "fairness.yaml"
    if not file.is_file():
        pytest.skip(f"the collected cases are not beside this repository ({file})")
    assert runner.main([file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 38
    assert all(line.startswith("PASS ") for line in lines)
