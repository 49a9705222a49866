"""Plug-ins that misbehave: named with their line where they cannot be loaded, with their policy where they fail."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import rm_emulator
from rm_emulator.experiments.api import CellsFailed

pytestmark = pytest.mark.usefixtures("no_report")

Refused = Callable[..., str]
HEAD: Final = """\
import msgspec
from schedulers.core.policy import Suggestion, policies
from schedulers.policies.fifo import Fifo
"""
SCENARIO: Final = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  cluster: {nodes: [{count: 2, capacity: {cpu: 2, memory: 4Gi}}]}
  workload:
    kind: jobs
    jobs: [{name: a, stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]}]
  policies: [{kind: own}]
"""
CLASS: Final = "@policies.register('own', source='a test')\nclass Own(Fifo):\n    '''Own.'''\n"

#: A file -> what is said when it is loaded.
FILES: Final = {
    "def (": "p.py:1: plug-in cannot be loaded: SyntaxError: invalid syntax",
    "import nosuchmodule_x": "p.py:1: plug-in cannot be loaded: ModuleNotFoundError: No module named 'nosuchmodule_x'",
    "a\0b": "p.py: plug-in cannot be loaded: SyntaxError: source code string cannot contain null bytes",
    "if 1:\n\tx\n        y": "p.py:3: plug-in cannot be loaded: TabError",
    "raise RuntimeError('x')": "p.py:1: plug-in cannot be loaded: RuntimeError: x",
    "from . import x": "p.py:1: plug-in cannot be loaded: ImportError: attempted relative import",
    HEAD + CLASS.replace("'own'", "'fifo'"): "policy 'fifo' is registered already, by schedulers.policies.fifo",
    HEAD
    + CLASS.replace("'own'", "3"): "p.py:4: plug-in cannot be loaded: InvalidParameters: policy 3: a name is a text",
    HEAD + CLASS.replace("'own'", "''"): "policy '': a name is a text of letters, digits",
    HEAD + CLASS.replace("'own'", "'o w n'"): "policy 'o w n': a name is a text of letters, digits",
    HEAD + CLASS.replace(", source='a test'", ""): "missing 1 required keyword-only argument: 'source'",
    HEAD + "policies.register('own', source='a test')(lambda: 1)": "policy 'own': a class is registered, not <function",
    HEAD + CLASS + "    class Params:\n        x = 1\n": "policy 'own': its Params are no msgspec.Struct",
    HEAD + CLASS + "    class Params(msgspec.Struct):\n        a: int\n": "policy 'own': settings without a default: a",
}
#: What the class of a policy has in it -> what `check` says of the scenario that names it.
CLASSES: Final = {
    "    def __init__(self):\n        pass\n": "policy 'own' cannot be made: TypeError",
    "    def __init__(self, params, *, seed=0):\n        1 / 0\n": "policy 'own' cannot be made: ZeroDivisionError",
    "    @classmethod\n    def mistakes(cls, *_):\n        1 / 0\n": "policy 'own' cannot look at the queues: Z",
    "    @classmethod\n    def mistakes(cls, *_):\n        return [3]\n": "policy 'own' cannot look at the queues: T",
}
#: A method -> what the failure of the run says, whatever it is.
METHODS: Final = {
    "schedule(self, view, offer): raise ZeroDivisionError('x')": "ZeroDivisionError: x",
    "schedule(self, view, offer): return None": "'NoneType' object is not an iterator",
    "schedule(self, view, offer): return [3]": "'list' object is not an iterator",
    "schedule(self, view, offer): yield 3": "AttributeError: 'int' object has no attribute",
    "schedule(self, view, offer): yield Suggestion('zz', 0)": "the last suggestion of policy 'own' names job 'zz', "
    "which is not there",
    "schedule(self, view, offer): yield Suggestion('a', 77)": "the last suggestion of policy 'own' names stage 77 of "
    "job 'a', which has 1",
    "schedule(self, view, offer):\n        while 1: yield Suggestion('zz', 0)": "policy 'own' suggests 2,000 times in "
    "a row what names job 'zz', which is not there",
    "schedule(self, view, offer):\n        while 1: yield Suggestion('a', 0, task=9)": "policy 'own' suggests 2,000 "
    "times in a row what is answered with",
    "schedule(self, view, offer): yield Suggestion('a', -1)": "1 jobs can never finish; the first is 'a'",
    "schedule(self, view, offer): yield Suggestion('a', 'x')": "1 jobs can never finish; the first is 'a'",
    "schedule(self, view, offer): yield from ()": "1 jobs can never finish; the first is 'a'",
    "schedule(self, view, offer): view.jobs.clear(); return super().schedule(view, offer)": "'mappingproxy' object "
    "has no attribute 'clear'",
    "schedule(self, view, offer):\n        for job in view.jobs.values(): job.waiting = 0\n        yield": "p.py:8 "
    "writes `waiting` of a JobState: what a policy sees is read-only",
    "schedule(self, view, offer):\n        for job in view.jobs.values(): job.stages[0].running += 1\n        yield": ""
    "p.py:8 writes `running` of a StageState: what a policy sees is read-only",
    "schedule(self): return iter(())": "takes 1 positional argument but 3 were given",
    "why(self, job, view): return 'x'": "AttributeError: 'str' object has no attribute",
    "next_change(self, view): return 'soon'": "TypeError",
    "observe(self, event, view): raise OSError('disk')": "disk",
    "schedule(self, view, offer): raise SystemExit(3)": "SystemExit: 3",
}


@pytest.mark.parametrize("text", FILES, ids=[repr(text.removeprefix(HEAD)[:50]) for text in FILES])
def test_a_plugin_that_cannot_be_loaded(refused: Refused, tmp_path: Path, text: str) -> None:
    (tmp_path / "p.py").write_text(text)
    assert FILES[text] in refused("policies", "--plugin", "p.py")


#: A file's name and what is in it -> what is said when it is loaded as weights of a network.
WEIGHTS: Final = {
    ("w.safetensors", b""): "w.safetensors: 0 bytes that are no weights, or only their beginning",
    ("w.safetensors", pickle.dumps({"a": 1})): "w.safetensors: this is a pickle or an archive, as torch.save writes",
    ("w.yaml", b"job: 1\n"): "w.yaml: neither Python (FILE.py) nor weights (FILE.safetensors)",
    ("decima.safetensors", b""): "there are weights 'decima' already, from the program; give the file another name",
}


@pytest.mark.parametrize("file", WEIGHTS, ids=str)
def test_weights_that_cannot_be_used(refused: Refused, tmp_path: Path, file: tuple[str, bytes]) -> None:
    (tmp_path / file[0]).write_bytes(file[1])
    said = refused("policies", "--plugin", file[0])
    assert WEIGHTS[file] in said
    assert said.count("\n") == 1


def test_weights_that_nobody_gave_are_missed_where_they_are_named(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("{kind: own}", "{kind: decima, weights: best}"))
    said = refused("check", "s.yaml")
    assert "s.yaml:9:" in said
    assert (
        "no weights 'best' (known: containers, decima, lachesis, makespan); "
        "name the file best.safetensors among the plug-ins" in said
    )


@pytest.mark.parametrize("body", CLASSES)
def test_a_policy_that_cannot_be_made_or_asked(refused: Refused, tmp_path: Path, body: str) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    able = CLASS.replace("(Fifo)", "(Fifo, MindsQueues)")
    (tmp_path / "p.py").write_text(HEAD + "from schedulers.core.abilities import MindsQueues\n" + able + body)
    assert CLASSES[body] in refused("check", "s.yaml", "--plugin", "p.py")


def test_what_is_no_policy_is_not_made(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "p.py").write_text(HEAD + CLASS.replace("(Fifo)", ""))
    assert "policy 'own' cannot be made: TypeError" in refused("check", "s.yaml", "--plugin", "p.py")


@pytest.mark.parametrize("method", METHODS)
def test_a_policy_that_misbehaves_fails_its_run_and_is_named(tmp_path: Path, method: str) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "p.py").write_text(f"{HEAD}{CLASS}    def {method}\n")
    with pytest.raises(CellsFailed) as failed:
        rm_emulator.run(tmp_path / "s.yaml", out=tmp_path / "out", jobs=1, plugins=[tmp_path / "p.py"])
    assert "own seed 1" in str(failed.value)
    assert METHODS[method] in str(failed.value)


#: A key of a policy -> whether its decisions are the same on the same facts.
KEYS: Final = {
    "(random.random(), job.id)": "policy 'own' decides differently when its log is replayed",
    "(next(COUNT) % 7, job.id)": "policy 'own' decides differently when its log is replayed",
    "(-job.waiting, job.id)": "",
}


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.drawn(of=4)
def test_the_first_run_of_a_plugins_policy_is_replayed(tmp_path: Path, key: str, jobs: int) -> None:
    wide = ", ".join(
        f"{{name: j{n}, stages: [{{name: m, tasks: 3, demand: {{cpu: 1}}, duration: {n + 1}s}}]}}" for n in range(9)
    )
    text = SCENARIO.replace("[{name: a, stages: [{name: m, tasks: 2, demand: {cpu: 1}, duration: 3s}]}]", f"[{wide}]")
    (tmp_path / "s.yaml").write_text(text.replace("spec:", "spec:\n  seeds: [1, 2]"))
    imports = "import itertools\nimport random\nCOUNT = iter(range(7, 10**9, 3))\n"
    ordered = CLASS.replace("(Fifo)", "(Ordered)") + f"    def key(self, job, view): return {key}\n"
    (tmp_path / "p.py").write_text(imports + HEAD + "from schedulers.kit.ordered import Ordered\n" + ordered)
    options = {"jobs": jobs, "plugins": [tmp_path / "p.py"]}
    if not KEYS[key]:
        assert len(rm_emulator.run(tmp_path / "s.yaml", out=tmp_path / "out", **options).runs) == 2
        return
    with pytest.raises(CellsFailed) as failed:
        rm_emulator.run(tmp_path / "s.yaml", out=tmp_path / "out", **options)
    assert "own seed 1" in str(failed.value)
    assert KEYS[key] in str(failed.value)
    assert len(rm_emulator.run(tmp_path / "s.yaml", out=tmp_path / "other", replay=False, **options).runs) == 2
