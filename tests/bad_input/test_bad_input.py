"""Bad inputs, in kind: each ends with a line that says what is wrong, none in a traceback, a hang or a crash.

What could hang or crash an interpreter is a process of its own; those are `slow`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import rm_emulator
from rm_emulator.files import write_file

pytestmark = pytest.mark.usefixtures("no_report")

Ended = subprocess.CompletedProcess[str]
Program = Callable[..., Ended]
Refused = Callable[..., str]
GOOD: Final = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  seeds: [1]
  cluster: {nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]}
  workload:
    kind: jobs
    jobs:
    - name: a
      stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]
  policies:
  - {kind: fifo}
"""

NESTED: Final = (
    "[" * 60_000,
    "{a: " * 60_000,
    "- " * 60_000,
    "? " * 60_000,
    "\n".join(" " * depth + "a:" for depth in range(3000)),
)
#: What the file begins with -> what is said.
SCENARIOS: Final = {
    "": "the file is empty",
    "[" * 200 + "]" * 200: "expected a mapping",
    "a: &x [*x]": "aliases lead in a circle",
    "a: *nobody": "not YAML",
    "\x00": "not",
    "3": "expected a mapping",
    "kind: Scenari": "expected 'Scenario'",
    "!!python/object/apply:os.system [ls]": "not accepted",
    GOOD.replace("tasks: 2", "tasks: -2"): "tasks: -2 is not accepted",
    GOOD.replace("tasks: 2", "tasks: 1e99"): "is not accepted",
    GOOD.replace("count: 2", "count: 0"): "count: 0 is not accepted",
    GOOD.replace("duration: 3s", "duration: .nan"): "not a duration: nan",
    GOOD.replace("duration: 3s", "duration: -3s"): "duration",
    GOOD.replace("cpu: 1}", "cpu: 5}"): "is larger than every node",
    GOOD.replace("tasks: 2", "tasks: 40, gang: true"): "the 40 tasks of a gang start together",
    GOOD.replace("fifo", "fifoo"): "did you mean 'fifo'?",
    GOOD.replace("[1]", "[]"): "no seeds",
    GOOD.replace("kind: jobs", "kind: jobs\n    kind: jobs"): "is given twice",
}


def says(ended: Ended, what: str) -> None:
    """The command ended with code 2 and said so in one line at least, and in no other way."""
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 2, ended
    assert what in ended.stderr


@pytest.mark.parametrize("text", SCENARIOS, ids=lambda text: repr(text[-30:]))
def test_a_bad_scenario(refused: Refused, tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    assert SCENARIOS[text] in refused("check", "s.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("text", NESTED, ids=lambda text: repr(text[-30:]))
@pytest.mark.drawn(of=4)
def test_a_scenario_that_is_nested_too_deeply(program: Program, tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    says(program("check", "s.yaml"), "nested too deeply")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("check", "pipe"),
        ("run", "pipe"),
        ("traces", "describe", "pipe"),
        ("traces", "describe", "pipe", "--format", "csv"),
        ("convert", "csv", "pipe", "out"),
        ("replay", "pipe"),
        ("explain", "pipe", "job"),
        ("case", "pipe"),
        ("run", "hello", "--plugin", "pipe"),
    ],
    ids=" ".join,
)
@pytest.mark.drawn(of=4)
def test_a_pipe_is_not_waited_for(program: Program, tmp_path: Path, command: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")
    says(program(*command), "pipe")


@pytest.mark.parametrize("out", ["/proc/w", "/dev/null", "/dev/null/w", "no/such/w"])
def test_a_place_that_convert_cannot_write_to(refused: Refused, tmp_path: Path, out: str) -> None:
    (tmp_path / "t.csv").write_text("job,submit,tasks,mean\na,0,1,3\n")
    assert out in refused("convert", "csv", "t.csv", out)


@pytest.mark.parametrize("out", ["/proc/w", "/dev/null", "/dev/null/w"])
def test_a_place_that_run_cannot_write_to(refused: Refused, tmp_path: Path, out: str) -> None:
    (tmp_path / "s.yaml").write_text(GOOD)
    assert out in refused("run", "s.yaml", "--out", out)


def test_run_does_not_replace_its_own_scenario(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(GOOD)
    assert "has 'scenario.yaml' in it" in refused("run", "scenario.yaml", "--out", ".", "--overwrite")
    assert (tmp_path / "scenario.yaml").read_text() == GOOD
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


FORMAT: Final = """
from rm_emulator.workload.formats import TraceError, register
@register("own", source="a test")
class Own:
    '''A format.'''
    columns = ()
    @staticmethod
    def read(path, options):
        {}
"""
#: What a plug-in does -> what is said.
PLUGINS: Final = {
    "import sys; sys.exit(0)": "plug-in cannot be loaded: SystemExit: 0",
    "raise MemoryError": "plug-in cannot be loaded: MemoryError",
    "from abc import abstractmethod\nfrom schedulers.core.policy import Policy, policies\n"
    "@policies.register('half', source='a test')\nclass Half(Policy):\n    '''Half.'''\n"
    "    @abstractmethod\n    def other(self): ...\n": "policy 'half' lacks methods of its base: ",
    FORMAT.format("raise TraceError(['one', 'two'])"): "one\ntwo",
    FORMAT.format("raise TraceError"): "the plug-in that reads 'own'",
    FORMAT.format("raise TraceError('bad', path)"): "the plug-in that reads 'own'",
    FORMAT.format("1 / 0"): "failed: ZeroDivisionError",
    FORMAT.format("import sys; sys.exit(0)"): "failed: SystemExit: 0",
    FORMAT.format("return None"): "gave None, not a Trace",
}


@pytest.mark.parametrize("text", PLUGINS, ids=lambda text: repr(text[-30:]))
def test_a_bad_plugin(refused: Refused, tmp_path: Path, text: str) -> None:
    (tmp_path / "p.py").write_text(text)
    (tmp_path / "t.own").write_text("x")
    assert PLUGINS[text] in refused("traces", "describe", "t.own", "--format", "own", "--plugin", "p.py")


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_a_plugin_that_ends_the_program_in_the_middle(program: Program, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "from schedulers.core.policy import policies\nfrom schedulers.policies.fifo import Fifo\n"
        "@policies.register('exits', source='a test')\nclass Exits(Fifo):\n    '''Ends.'''\n"
        "    def schedule(self, view, offer):\n        raise SystemExit(0)\n"
    )
    (tmp_path / "s.yaml").write_text(GOOD.replace("fifo", "exits"))
    ended = program("run", "s.yaml", "--plugin", "p.py", "--out", "out")
    assert ended.returncode == 1
    assert "exits seed 1 failed: SystemExit: 0" in ended.stderr


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_an_ascii_terminal_gets_its_figures(program: Program, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        GOOD.replace("name: a", "name: ä") + "  - {kind: sjf, predictor: {kind: oracle}}\n"
    )
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for command in (("run", "s.yaml", "--out", "out"), ("compare", "out"), ("compare", "out", "--json")):
        ended = program(*command, **ascii_only)
        assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), ended
        assert ended.stdout.isascii()
    log = "out/runs/fifo/1/events.jsonl"
    assert program("explain", log, "ä", **ascii_only).returncode == 0


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_a_log_that_was_cut_is_not_called_identical(program: Program, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GOOD)
    rm_emulator.run(tmp_path / "s.yaml", out=tmp_path / "out")
    cell = tmp_path / "out/runs/fifo/1"
    lines = (cell / "events.jsonl").read_bytes().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if b'"TaskFinished"' in line or b'"ContainerEnded"' in line)
    assert "decisions, identical; " in program("replay", cell / "events.jsonl").stdout
    (tmp_path / "alone.jsonl").write_bytes(b"".join(lines))
    assert "identical as far as it goes (no cell.json" in program("replay", "alone.jsonl").stdout
    (tmp_path / "alone.jsonl").write_bytes(b"".join(lines[:cut]))
    assert "1 unfinished job at its end" in program("replay", "alone.jsonl").stdout
    (cell / "events.jsonl").write_bytes(b"".join(lines[:cut]))
    assert "is not the whole log of its run" in refused("replay", cell / "events.jsonl")


def test_benchmarks_are_in_a_checkout_alone(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "benchmarks are not part of the package: run this in a checkout" in refused("bench")


def test_no_file_takes_the_place_of_a_device(tmp_path: Path) -> None:
    (tmp_path / "device").symlink_to("/dev/null")
    with pytest.raises(OSError, match="neither a file nor a folder"):
        write_file(tmp_path / "device", "text")
    assert (tmp_path / "device").is_symlink()


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_a_folder_with_brackets_in_its_name_is_run_in(program: Program, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GOOD)
    assert program("run", "s.yaml", "--out", "[1, {").returncode == 0
