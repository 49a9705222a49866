"""Wishes and expressions in STRL that make no sense: exit code 2 and a line that names the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., str]
AT = "spec.workload.jobs[0].wishes"

SETTINGS = {
    f"{AT}.prefer=[{{device: gpus}}]": "no node of kind 'gpus' (gpu, plain), did you mean 'gpu'?",
    f"{AT}.prefer=[{{rack: r1}}]": "no node of rack 'r1' (no node has a rack)",
    f"{AT}.prefer=[{{same_rack: true}}]": "no node is in a rack: give groups of nodes `rack` or `racks`",
    f"{AT}.prefer=[{{worth: -1}}]": f"{AT}.prefer[0].worth: -1 is not accepted",
    f"{AT}.prefer=[{{worth: .nan}}]": f"{AT}.prefer[0].worth: nan is not accepted",
    f"{AT}.prefer=[{{slowdown: 0}}]": f"{AT}.prefer[0].slowdown: 0 is not accepted",
    f"{AT}.prefer=[{{devices: gpu}}]": "did you mean 'device'?",
    f"{AT}.prefer=gpu": f"{AT}.prefer",
    f"{AT}.value=0": f"{AT}.value=0: 0 is not accepted",
    f"{AT}.budget=0s": f"{AT}.budget=0s: is 0: expected a duration above zero",
    "spec.workload.jobs[0].apart=0.5": "spec.workload.jobs[0].apart=0.5: 0.5 is not accepted",
    "spec.workload.jobs[0].deadline=-5s": "deadline",
    "spec.workload.jobs[0].deadline=0s": "is 0: expected a duration above zero",
    "spec.policies[1].plan_ahead_s=7200": "1800 slices of cycle_s 4 (at most 256: cycle_s from 28.125 on)",
    "spec.policies[1].cycle_s=0": "cycle_s",
    "spec.policies[1].gap=1": "gap",
    "spec.policies[1].preferences=harder": "preferences",
}  # fmt: skip


@pytest.mark.parametrize(("setting", "said"), SETTINGS.items())
def test_a_wish_that_makes_no_sense_is_refused(refused: Refused, setting: str, said: str) -> None:
    assert said in refused("check", "wishes", "--set", setting)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max(\n  nCk(gpu, k=2))", ":2:15: expected ',' and 'v=', found ')'"),
        ("", ":1:1: expected one of nCk"),
        ("max(" * 1000, "more than 50 operators inside each other"),
    ],
)
def test_an_expression_that_does_not_parse_is_told_where(
    refused: Refused, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "a.strl"
    file.write_text(text, encoding="utf-8")
    assert said in refused("wishes", str(file))


def test_a_file_that_is_not_there_and_one_that_is_no_text_are_refused(refused: Refused, tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in refused("wishes", str(tmp_path / "none.strl"))
    (tmp_path / "b.strl").write_bytes(b"\xff\xfe")
    assert "it is no text in UTF-8" in refused("wishes", str(tmp_path / "b.strl"))


def test_a_job_that_is_not_there_and_a_scenario_without_wishes_are_refused(refused: Refused) -> None:
    assert "has no job 'train', did you mean 'train-" in refused("wishes", "wishes", "train")
    assert "no job has wishes or a deadline" in refused("wishes", "hello")
