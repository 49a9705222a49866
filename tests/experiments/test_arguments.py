"""What a Python program may give in place of text, and what it gets back: stories, comparisons, frames for pandas."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest

import rm_emulator
from rm_emulator.experiments.api import Results
from rm_emulator.issues import InvalidInput
from rm_emulator.results.compare import CompareError
from schedulers.core.policy import policies
from schedulers.policies.fifo import Fifo
from schedulers.predictors.oracle import Oracle

pytestmark = pytest.mark.usefixtures("no_report")

ROOT = Path(__file__).parents[2]


class LateFirst(Fifo):
    """Not registered; has a setting."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        eager: Annotated[bool, msgspec.Meta(description="nothing")] = True
        tie: str = "submit"


def scenario(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "given"},
        "spec": {
            "cluster": {"nodes": [{"count": np.int64(2), "capacity": {"cpu": 2, "memory": "4Gi"}}]},
            "workload": {
                "kind": "jobs",
                "jobs": (
                    {"name": "a", "stages": [{"name": "m", "tasks": 6, "demand": {"cpu": 1}, "duration": "30s"}]},
                ),
            },
            "policies": [{"kind": "fifo"}],
            **spec,
        },
    }


@pytest.fixture(scope="module")
def results() -> Results:
    return rm_emulator.run("hello", seeds=[1, 2])


# -- scenarios ------------------------------------------------------------------------------------


def test_a_scenario_may_be_a_dict() -> None:
    given = scenario()
    held = rm_emulator.run(given, set={"spec.seeds": (1, 2)})
    assert held.runs["seed"].to_list() == [1, 2]
    assert held.jobs["tasks"].to_list() == [6, 6]
    assert given == scenario()


def test_a_mistake_in_a_dict_is_named_by_its_path() -> None:
    with pytest.raises(InvalidInput, match=r"^spec.cluster.profile: 'yran' is not accepted"):
        rm_emulator.run(scenario(cluster={"nodes": [{"capacity": {"cpu": 1}}], "profile": "yran"}))


def test_paths_in_a_dict_are_relative_to_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "rm_emulator/scenario/examples/my-trace.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    cluster = {"nodes": [{"count": 6, "capacity": {"cpu": 8, "memory": "32Gi"}}]}
    given = scenario(cluster=cluster, workload={"kind": "trace", "format": "csv", "path": Path("my-trace.csv")})
    assert len(rm_emulator.run(given).jobs) > 10


def test_a_dict_that_contains_itself_is_refused() -> None:
    given = scenario()
    given["spec"]["workload"] = given
    with pytest.raises(InvalidInput, match="contains itself"):
        rm_emulator.run(given)


def test_a_sweep_may_be_a_dict_s() -> None:
    swept = rm_emulator.run(scenario(sweep={"cluster.nodes[0].count": [1, 2]}))
    assert swept.runs["sweep.cluster.nodes[0].count"].to_list() == [1, 2]


# -- classes --------------------------------------------------------------------------------------


def test_a_class_runs_beside_the_scenario_s_policies() -> None:
    held = rm_emulator.run("hello", policies=[LateFirst, {"kind": LateFirst, "eager": False, "label": "slow"}])
    assert held.runs["label"].to_list() == ["fifo", "fair", "sjf", "late_first", "slow"]
    assert "late_first" in policies


def test_a_class_may_stand_wherever_a_kind_does() -> None:
    given = scenario(policies=[{"kind": LateFirst}, {"kind": "sjf", "predictor": {"kind": Oracle}}])
    assert rm_emulator.run(given).runs["label"].to_list() == ["late_first", "sjf"]


def test_several_processes_are_refused_to_a_class_that_they_would_not_find() -> None:
    with pytest.raises(InvalidInput, match=r"^jobs=2: other processes do not find LateFirst.*plugins=$"):
        rm_emulator.run("hello", policies=[LateFirst], jobs=2)


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_results_of_a_class_are_kept_until_its_file_changes(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    text = (
        "import rm_emulator\nfrom schedulers.policies.fifo import Fifo\n"
        "class Mine(Fifo):\n    'Mine.'\n"
        "rm_emulator.run('hello', out='out', policies=[Mine])\n"
    )

    def ran() -> str:
        command = [sys.executable, str(script)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stderr

    script.write_text(text)
    assert ran() == ""
    assert ran() == ""
    script.write_text(text + "# changed\n")
    assert "from other settings" in ran()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (int, "^int is not a policy, a predictor or a placer"),
        ("fifi", r"^policies\[0\] spec.policies\[3\].kind: unknown policy 'fifi' .*did you mean 'fifo'"),
        ("fifo", r"^policies\[0\] spec.policies\[3\].label: label 'fifo' is taken"),
    ],
)
def test_a_policy_that_cannot_be_is_named_by_its_argument(given: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        rm_emulator.run("hello", policies=[given])


# -- stories and comparisons ----------------------------------------------------------------------


def test_explain_tells_what_the_command_tells(results: Results) -> None:
    job = results.jobs["id"][0]
    told = rm_emulator.explain(results, job, label="fair", seed=2)
    command = [sys.executable, "-m", "rm_emulator", "explain", str(results.path), job, "--label", "fair", "--seed", "2"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{told}\n")
    assert told.advice is None
    assert told.story.job == job
    assert told.story.waited_ms + told.story.ran_ms > 0


def test_explain_tries_what_would_have_helped_at_a_point_of_a_sweep_too() -> None:
    swept = rm_emulator.run(scenario(sweep={"cluster.nodes[0].count": [1, 2]}))
    told = rm_emulator.explain(swept, swept.jobs["id"][0], point=1, advise=True)
    assert told.advice is not None
    assert len(str(told).splitlines()) > len(str(rm_emulator.explain(swept, swept.jobs["id"][0], point=1)).splitlines())


def test_explain_knows_the_points_of_a_sweep() -> None:
    swept = rm_emulator.run(scenario(sweep={"cluster.nodes[0].count": [1, 2]}))
    job = swept.jobs["id"][0]
    ran = [rm_emulator.explain(swept, job, point=point).story.ran_ms for point in (1, 2)]
    assert ran[0] > ran[1]


def test_compare_says_what_the_command_says(results: Results) -> None:
    card = rm_emulator.compare(results, labels=["fifo", "sjf"])
    assert (card["left"]["label"], card["right"]["label"], card["seeds"]) == ("fifo", "sjf", [1, 2])
    assert str(card).startswith("B (sjf) relative to A (fifo)")
    assert rm_emulator.compare(results, results.path, labels=["fair"])["scores"][0]["verdict"] == "same"
    with pytest.raises(CompareError, match="no label 'x'"):
        rm_emulator.compare(results, labels=["fifo", "x"])


def test_a_notebook_shows_the_table_of_the_run(results: Results) -> None:
    html = results._repr_html_()
    assert re.findall(r"<tr><td>(\w+)</td>", html) == ["fifo", "fair", "sjf"]
    assert "<caption>hello: 3 jobs" in html


def test_what_a_notebook_shows_is_escaped() -> None:
    text = rm_emulator.run(scenario(sweep={"policies[0].label": ["f"], "workload.jobs[0].user": ["<b>"]}))._repr_html_()
    assert "&lt;b&gt;" in text
    assert "<td><b>" not in text


# -- pandas ---------------------------------------------------------------------------------------


def test_to_pandas_without_pandas_says_what_to_install(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
        results.to_pandas("jobs")


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_frames_for_pandas_have_a_type_for_each_kind_of_column(results: Results) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: pip install -e '.[dev]'")
    jobs, tasks = results.to_pandas("jobs"), results.to_pandas("tasks")
    assert list(jobs.columns) == results.jobs.columns
    kinds = {name: str(jobs[name].dtype) for name in ("label", "seed", "submit_ms", "finish_ms", "thin", "weight")}
    assert kinds == {
        "label": "string", "seed": "Int64", "submit_ms": "Int64", "finish_ms": "Int64", "thin": "boolean",
        "weight": "float64",
    }  # fmt: skip
    assert (len(tasks), tasks["node"].iloc[0]) == (len(results.tasks), results.tasks["node"][0])
    assert str(results.to_pandas("runs")["jct_s.mean"].dtype) == "float64"


# -- types ----------------------------------------------------------------------------------------

SNIPPET = """\
import rm_emulator
results = rm_emulator.run("hello")
reveal_type(results)
reveal_type(rm_emulator.explain(results, "a"))
rm_emulator.run(1)
"""


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_types_are_seen_from_an_editable_install(tmp_path: Path) -> None:
    tree, elsewhere, python = tmp_path / "tree", tmp_path / "elsewhere", tmp_path / "venv/bin/python"
    for folder in ("rm_emulator", "schedulers", "operators", "forecaster"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    elsewhere.mkdir()
    (elsewhere / "mine.py").write_text(SNIPPET)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "-e", tree]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if "No matching distribution found" in installed.stderr and os.environ.get("CI") != "true":
        pytest.skip("no package index in reach: it is built with setuptools")
    assert installed.returncode == 0, installed.stderr
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--python-executable",
        python,
        "--cache-dir",
        tmp_path / "cache",
        "mine.py",
    ]
    environment = {"PATH": "/usr/bin:/bin"}
    seen = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False).stdout
    assert '"rm_emulator.experiments.api.Results"' in seen
    assert '"rm_emulator.experiments.api.Explanation"' in seen
    assert 'Argument 1 to "run" has incompatible type "int"' in seen
