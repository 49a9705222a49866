"""`rm-emulator wishes`: what plain wishes are in STRL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from schedulers.planning.tetrisched.strl import leaves, parse

SHORT = ("--set", "spec.policies[1].plan_ahead_s=8", "--set", "spec.policies[3].plan_ahead_s=8")


def test_what_is_printed_of_a_job_parses(command: Callable[..., Any]) -> None:
    said = command("wishes", "wishes", "train-a", *SHORT)
    assert said.code == 0
    assert said.out.startswith(
        "# job train-a, stage fit: 4 tasks together\nmax(\n  nCk(gpu, k=4, start=0, dur=20000, v="
    )
    found = [(leaf.set, leaf.start, leaf.dur) for leaf in leaves(parse(said.out))]
    assert found == [("gpu", 0, 20_000), ("gpu", 4000, 20_000), ("any", 0, 60_000), ("any", 4000, 60_000)]


def test_all_jobs_with_wishes_or_a_deadline_are_shown(command: Callable[..., Any]) -> None:
    said = command("wishes", "wishes", *SHORT)
    shown = [line.split()[2].rstrip(",") for line in said.out.splitlines() if line.startswith("# job")]
    assert shown == ["train-a", "train-b", "train-c", "report", "nightly"]


def test_an_expression_in_a_file_is_printed_indented(command: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "a.strl"
    file.write_text("max(nCk(a,k=1,v=2), nCk(b,k=1,v=1))", encoding="utf-8")
    assert command("wishes", str(file)).out == "max(\n  nCk(a, k=1, v=2),\n  nCk(b, k=1, v=1)\n)\n"
