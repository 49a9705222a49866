"""What the README promises works: its policy, its commands, its Python, its links."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "widest_first.py"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def command_lines() -> list[str]:
    return [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.strip()]


def rm_emulator(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rm_emulator", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_policy_shown_is_the_one_in_the_file() -> None:
    shown = next(block for block in blocks("python") if "WidestFirst" in block)
    assert shown in EXAMPLE.read_text(encoding="utf-8")


def test_the_policy_is_about_fifteen_lines() -> None:
    shown = next(block for block in blocks("python") if "WidestFirst" in block)
    assert len([line for line in shown.splitlines() if line.strip()]) <= 15


def test_the_policy_runs_by_the_command_shown(tmp_path: Path) -> None:
    line = next(line for line in command_lines() if "--plugin" in line)
    arguments = [str(EXAMPLE) if a.endswith(".py") else a for a in shlex.split(line)[1:]]
    done = rm_emulator([*arguments, "--out", str(tmp_path / "out")], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "runs" / "widest" / "1" / "jobs.parquet").exists()


def test_the_python_shown_runs(tmp_path: Path) -> None:
    code = next(block for block in blocks("python") if "import rm_emulator" in block)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "jct_s.mean" in done.stdout


@pytest.mark.parametrize("line", sorted({line for line in command_lines() if line.startswith("rm-emulator ")}))
def test_every_command_shown_exists(line: str, tmp_path: Path) -> None:
    words = shlex.split(line)[1:]
    command = [words[0]] if words[:2] != ["traces", "describe"] else words[:2]
    done = rm_emulator([*command, "--help"], tmp_path)
    assert done.returncode == 0, done.stderr
    for option in (word for word in words if word.startswith("--")):
        assert option in done.stdout


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)]+)\)", README))))
def test_every_link_leads_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
