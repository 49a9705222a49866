"""Known answers of schedulers that think."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.known_answers import runner

SHARED = Path(__file__).parents[2] / "../shared/cases/architectures.yaml"
CASE = """
version: 1
cases:
- {id: half, kind: omega_trace, architecture: shared_state, conflict: sequence, commit: incremental,
   machines: {m0: 1}, schedulers: {X: {t_job: 1, t_task: 0}, Y: {t_job: 2, t_task: 0}},
   jobs: [{id: x, by: X, at: 0, tasks: 1, cpu: 0.5, dur: 30}, {id: y, by: Y, at: 0, tasks: 1, cpu: 0.5, dur: 30}],
   expect: {commits: [[1, x, 1, 0], [2, y, 0, 1], [5, y, 1, 0]], conflicts: CONFLICTS}}
"""


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[int, list[str]]:
    file = tmp_path / "cases.yaml"
    file.write_text(text)
    return runner.main([file]), capsys.readouterr().out.splitlines()


def test_a_right_answer_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, capsys, CASE.replace("CONFLICTS", "1")) == (0, ["PASS half/commits", "PASS half/conflicts"])


def test_a_wrong_answer_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(tmp_path, capsys, CASE.replace("CONFLICTS", "2"))
    assert (code, lines[1]) == (1, "FAIL half/conflicts: expected 2 got 1")


def test_times_finer_than_a_thousandth_are_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, (line,) = run(tmp_path, capsys, CASE.replace("CONFLICTS", "1").replace("t_job: 2", "t_job: 0.0001"))
    assert (code, line) == (0, "SKIP half: 0.0001 is not a whole number of thousandths")


@pytest.mark.skipif(not SHARED.exists(), reason="the known answers are not here: ../shared/cases")
def test_every_known_answer_of_the_kind_is_ours(capsys: pytest.CaptureFixture[str]) -> None:
    runner.main([SHARED])
    lines = [line for line in capsys.readouterr().out.splitlines() if " omega-" in line]
    assert len(lines) == 70
    assert all(line.startswith("PASS") for line in lines)
