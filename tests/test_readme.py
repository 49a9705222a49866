"""What the README promises works: policy, links, options; its commands and Python run in `test_pages.py`."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
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


#: What stands for a name of the reader's own.
NAMES = {" JOB": " query-001", " FILE": " case.yaml"}
CASE = "cases:\n- {id: memory, kind: normalise_mem, rows: [[0, 1024, 8192, 1024]]}\n"
#: Instead of what takes minutes: the same smaller, or in other words.
SMALLER = {
    "make demo": "rm-emulator run demo --seeds 1 --set spec.workload.jobs=10 --set 'spec.expect=[]'",
    "rm-emulator run slearn-vs-history --seeds 1..5 --jobs 2": (
        "rm-emulator run slearn-vs-history --seeds 1..2 --jobs 2 --set spec.workload.jobs=10 --set 'spec.expect=[]'"
    ),
    # Whole it is run by docs/sweeps.md, in the same folder.
    "rm-emulator run load-sweep": (
        "rm-emulator run load-sweep --out out/small-sweep --seeds 1 --set spec.workload.jobs=20 --set 'spec.expect=[]'"
        " --set 'spec.sweep[\"workload.load\"]=[0.9]'"
    ),
}
#: What needs a cluster, another program or an hour; tests of their own run it.
ELSEWHERE = re.compile(
    r"make (test|fidelity|tables|demo-kubernetes)|kubectl |"
    r"rm-emulator (snapshot|run live.yaml|bench|--install-completion)"
)


def in_order() -> Iterator[tuple[str, str]]:
    """(language, text) of each command line and each Python program, as the README has them from top to bottom."""
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", README, flags=re.DOTALL):
        if language == "python":
            yield from [(language, block)] if "import rm_emulator" in block else []
            continue
        for line in (line.partition("#")[0].strip() for line in block.splitlines()):
            if line and not ELSEWHERE.match(line):
                yield language, line


def mine(language: str, text: str) -> str:
    """The command of the shell in the place of a README's line or program: smaller, and with names of our own."""
    if language == "python":
        return f"python -c {shlex.quote(text)}"
    line = SMALLER.get(text, text)
    for name, own in NAMES.items():
        line = re.sub(rf"{name}\b", own, line)
    return line


@pytest.mark.parametrize("line", sorted({line for line in command_lines() if line.startswith("rm-emulator ")}))
@pytest.mark.drawn(of=4)
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
