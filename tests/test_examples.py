"""The examples of docs/extending.md and of its parts: each keeps the promises of its kind and is shown as it is."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import rm_emulator
from rm_emulator.engine.profile import profiles
from rm_emulator.plugins import load_plugins
from rm_emulator.results.chart import Cells, charts
from rm_emulator.scenario.schema import json_schema
from rm_emulator.testing import (
    POLICY_CHECKS,
    PolicyCheck,
    Subject,
    case,
    check_chart,
    check_format,
    check_placer,
    check_predictor,
    check_profile,
    check_registered,
    job,
    node,
    run_case,
    scheduler,
    stage,
)
from rm_emulator.workload import formats
from rm_emulator.workload.model import Fixed
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, Event, JobSubmitted, Tick
from schedulers.core.policy import policies

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
GUIDE_PAGES = [
    "docs/extending.md",
    *sorted(f"docs/research/{file.name}" for file in (ROOT / "docs" / "research").glob("*.md")),
]
GUIDE = "".join((ROOT / page).read_text(encoding="utf-8") for page in GUIDE_PAGES)
LANGUAGES = {".py": "python", ".patch": "diff"}
#: The README shows this one.
ELSEWHERE = {"widest_first.py"}


def load(*names: str) -> None:
    load_plugins([EXAMPLES / f"{name}.py" for name in names])


# -- the guide ------------------------------------------------------------------------------------


SHOWN = sorted(f for f in EXAMPLES.rglob("*.*") if f.suffix in LANGUAGES and f.name not in ELSEWHERE)


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.name)
def test_an_example_is_shown_as_it_is(file: Path) -> None:
    blocks = re.findall(rf"```{LANGUAGES[file.suffix]}\n(.*?)```", GUIDE, flags=re.DOTALL)
    included = f":::{{literalinclude}} ../examples/{file.name}\n:language: {LANGUAGES[file.suffix]}\n:::\n"
    assert included in GUIDE or file.read_text(encoding="utf-8") in blocks


@pytest.mark.parametrize("page", [*GUIDE_PAGES, "docs/glossary.md", "docs/design.md", "CONTRIBUTING.md"])
def test_every_link_of_a_newcomers_page_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", text):
        place = ((ROOT / page).parent / target).resolve()
        # Pages of the reference are made with the site, whose own build holds links to them.
        assert place.exists() or place.is_relative_to(ROOT / "docs" / "reference"), target


@pytest.mark.parametrize("page", [*GUIDE_PAGES, "docs/design.md", "CONTRIBUTING.md"])
def test_every_file_that_a_newcomers_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:schedulers|rm_emulator|operators|tests|docs|manifests)/[\w./-]+)`", text))
    environments = {name for name in named if re.search(r"-v\d$", name)}
    assert {name for name in named - environments if "NAME" not in name and not (ROOT / name).exists()} == set()


def test_every_command_of_the_guide_exists() -> None:
    known = subprocess.run(
        [sys.executable, "-m", "rm_emulator", "--help"], capture_output=True, text=True, check=True
    ).stdout
    used = set(re.findall(r"^rm-emulator (\w+)", GUIDE, flags=re.MULTILINE))
    assert used
    assert used <= set(re.findall(r"\w+", known))


# -- policies -------------------------------------------------------------------------------------

POLICIES = [
    Subject(policy={"kind": "widest_first"}),
    Subject(policy={"kind": "user_ageing", "half_life_s": 3.0}),
    Subject(policy={"kind": "user_ageing"}, predictor={"kind": "slearn", "fixed_percent": 30}),
    Subject(policy={"kind": "settling", "pause_s": 1.5}),
    Subject(policy={"kind": "longest_first"}, predictor={"kind": "oracle"}),
]


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", POLICIES, ids=str)
@pytest.mark.drawn(of=4)
def test_a_policy_keeps_all_promises(subject: Subject, check: PolicyCheck) -> None:
    load(subject.policy["kind"])
    check_registered(policies, subject.policy["kind"])
    check(subject)


def placed(policy: dict[str, object], facts: list[Event]) -> list[str]:
    """The jobs of the tasks that start, in order, on one core."""
    made = scheduler(policy, node())
    return [decision.job for fact in facts for decision in made.handle(fact) if isinstance(decision, Place)]


def test_the_user_who_was_given_least_goes_first_and_what_was_given_ages() -> None:
    load("user_ageing")
    ann, ben = job("ann", stage(9), user="ann"), job("ben", stage(9), user="ben")
    early = [ContainerEnded(1 + at, 1 + at, runtime_ms=1) for at in range(3)]
    late = [ContainerEnded(10_000 + at, 4 + at, runtime_ms=1) for at in range(2)]
    facts = [JobSubmitted(0, ann), *early, JobSubmitted(9_000, ben), *late]
    # Ann was given four containers by the time that Ben comes.
    assert placed({"kind": "user_ageing", "half_life_s": 1e6}, facts) == ["ann"] * 4 + ["ben"] * 2
    assert placed({"kind": "user_ageing", "half_life_s": 1.0}, facts) == ["ann"] * 4 + ["ben", "ann"]


def test_a_job_starts_once_it_has_settled() -> None:
    load("settling")
    assert placed({"kind": "settling"}, [JobSubmitted(0, job("a")), Tick(4_999), Tick(5_000)]) == ["a"]
    made = scheduler("settling", node())
    made.handle(JobSubmitted(0, job("a")))
    assert made.next_change() == 5_000
    made.handle(Tick(5_000))
    assert made.next_change() is None


# -- predictor and placer -------------------------------------------------------------------------


def test_the_predictor_keeps_all_promises() -> None:
    load("last_run")
    check_predictor("last_run")


def test_a_job_is_expected_to_take_what_its_last_run_took() -> None:
    load("last_run")
    made = scheduler("sjf", node(), predictor={"kind": "last_run"})
    made.handle(JobSubmitted(0, job("first", name="daily")))
    assert made.view.estimate("first", 0) is None
    made.handle(ContainerEnded(700, 1, runtime_ms=700))
    made.handle(JobSubmitted(800, job("second", name="daily")))
    estimate = made.view.estimate("second", 0)
    assert estimate is not None
    assert estimate.task_ms == 700


def test_the_placer_keeps_all_promises() -> None:
    load("fewest_containers")
    check_placer("fewest_containers", tie="random")


def test_a_task_goes_where_fewest_others_are() -> None:
    load("fewest_containers")
    made = scheduler("fifo", node("a", 4), node("b", 4), placement={"kind": "fewest_containers"})
    decisions = made.handle(JobSubmitted(0, job("j", stage(4))))
    assert [decision.node for decision in decisions if isinstance(decision, Place)] == ["a", "b", "a", "b"]


# -- trace reader ---------------------------------------------------------------------------------


def test_the_format_is_documented_and_refuses_what_it_cannot_read() -> None:
    load("gwf")
    check_format("gwf")


#: What is not read of a line.
REST = " ".join(["-1"] * 14)


def test_a_log_of_a_grid_is_read(tmp_path: Path) -> None:
    load("gwf")
    log = tmp_path / "log.gwf"
    log.write_text(
        "# Version: 1.0\n"
        f"1 0 5 60 4 -1 2048 4 -1 -1 1 U7 G1 X3 Q2 {REST}\n"
        f"2 9 5 -1 4 -1 -1 4 -1 -1 0 U7 G1 X3 Q2 {REST}\n"
        f"3 2.5 5 1.5 1 -1 -1 1 -1 -1 1 U8 G1 -1 -1 {REST} # a comment\n"
    )
    trace = formats.read("gwf", log)
    first, second = trace.workload.jobs
    assert (first.job.id, first.job.user, first.job.queue, first.job.name) == ("j1", "U7", "Q2", "X3")
    assert (first.job.stages[0].tasks, first.job.stages[0].demand, first.job.stages[0].gang) == (4, (1000, 2), True)
    assert (second.submit_ms, second.runtimes, second.job.queue) == (2500, (Fixed(1500),), "default")
    assert trace.notes == ("1 jobs that never ran are left out",)


def test_every_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    load("gwf")
    (tmp_path / "log.gwf").write_text("1 2 3\n1 0 x\n")
    with pytest.raises(formats.TraceError, match=r"log.gwf:1: 3 fields, not 29\n.*log.gwf:2: could not convert"):
        formats.read("gwf", tmp_path / "log.gwf")


# -- chart ----------------------------------------------------------------------------------------

SCENARIO = """
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: users}
spec:
  cluster: {nodes: [{capacity: {cpu: 2, memory: 4Gi}}]}
  policies: [{kind: user_ageing}, {kind: fifo}]
  workload:
    kind: jobs
    jobs:
    - {name: a, user: ann, stages: [{name: s, tasks: 4, demand: {cpu: 1, memory: 1Gi}, duration: 2s}]}
    - {name: b, user: ben, stages: [{name: s, tasks: 4, demand: {cpu: 1, memory: 1Gi}, duration: 2s}]}
"""


@pytest.mark.slow
def test_the_chart_and_the_policy_stand_in_the_report_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text(SCENARIO)
    plugins = [str(EXAMPLES / "user_ageing.py"), str(EXAMPLES / "wait_by_user.py")]
    options = [option for plugin in plugins for option in ("--plugin", plugin)]
    options += ["--set", "spec.report.charts=[{kind: wait_by_user, users: 2}]"]
    command = [sys.executable, "-m", "rm_emulator", "run", "users.yaml", "--out", "out", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Waiting time by user" in page
    assert {"ann", "ben"} <= set(re.findall(r"<td>(\w+)</td>", page)) | set(re.findall(r"\w+", page))


@pytest.mark.drawn(of=4)
def test_the_chart_keeps_its_promises_and_says_whom_it_left_out(tmp_path: Path) -> None:
    load("wait_by_user")
    third = SCENARIO.splitlines()[-1].replace("name: b", "name: c").replace("ben", "cat")
    for name, text in (("three", f"{SCENARIO}{third}\n"), ("one", SCENARIO.replace("user: ben", "user: ann"))):
        (tmp_path / f"{name}.yaml").write_text(text.replace("user_ageing", "fair"))
        rm_emulator.run(tmp_path / f"{name}.yaml", out=tmp_path / name)
    check_registered(charts, "wait_by_user")
    check_chart("wait_by_user", tmp_path / "three", tmp_path / "one")
    drawing, params = charts.parse({"kind": "wait_by_user", "users": 2})
    chart = drawing(params).draw(Cells.of(tmp_path / "three"))
    assert chart is not None
    assert len(chart.rows) == 2
    assert "1 more are left out" in chart.caption


def test_the_chart_leaves_a_run_of_one_user_alone(tmp_path: Path) -> None:
    load("wait_by_user")
    (tmp_path / "one.yaml").write_text(SCENARIO.replace("user: ben", "user: ann").replace("user_ageing", "fair"))
    rm_emulator.run(tmp_path / "one.yaml", out=tmp_path / "out")
    assert "Waiting time by user" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


# -- profile --------------------------------------------------------------------------------------

OUT_OF_BAND = [False, True]


@pytest.fixture
def _job_tracker() -> Iterator[None]:
    before = {entry.name: entry for entry in profiles}
    load("job_tracker")
    yield
    profiles._entries = before
    for name in [name for name in sys.modules if name.startswith("rm_emulator_plugin_job_tracker_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("_job_tracker")
@pytest.mark.parametrize("out_of_band", OUT_OF_BAND)
@pytest.mark.drawn(of=2)
def test_a_profile_keeps_all_promises(out_of_band: bool) -> None:
    check_profile("job_tracker", tuple(range(6)), out_of_band=out_of_band)


@pytest.mark.usefixtures("_job_tracker")
@pytest.mark.parametrize("out_of_band", OUT_OF_BAND)
def test_a_setting_of_the_profile_says_whether_an_end_waits_for_the_next_beat(out_of_band: bool) -> None:
    made = case(2, profile="job_tracker", executors=False, out_of_band=out_of_band)
    ran = run_case(Subject(policy={"kind": "fifo"}), made)
    heard = {event.container: event.at for event, _ in ran.audit.history if isinstance(event, ContainerEnded)}
    late = [task for task in ran.kept.tasks if heard[task.container] > task.ended_ms]
    assert bool(late) is not out_of_band


@pytest.mark.usefixtures("_job_tracker")
def test_the_schema_has_the_profile_with_its_setting() -> None:
    shown = json_schema()["$defs"]["Cluster"]["properties"]["profile"]["anyOf"]
    assert "job_tracker" in shown[0]["enum"]
    settings = next(each for each in shown[1]["oneOf"] if each["title"] == "job_tracker")["properties"]
    assert settings["out_of_band"]["type"] == "boolean"


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_scenario_names_the_file_of_its_profile_and_sets_it(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "job_tracker.py", tmp_path)
    text = SCENARIO.replace("spec:", "spec:\n  plugins: [job_tracker.py]", 1)
    text = text.replace("cluster: {", "cluster: {profile: {kind: job_tracker, out_of_band: true}, ", 1)
    (tmp_path / "hadoop.yaml").write_text(text.replace("user_ageing", "fair"))
    command = [sys.executable, "-m", "rm_emulator", "run", "hadoop.yaml", "--out", "out", "--json", "--jobs", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"]


# -- a field of a job -----------------------------------------------------------------------------

IMPORTANT = """
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: important}
spec:
  plugins: [by_importance.py]
  cluster: {nodes: [{capacity: {cpu: 1}}], profile: events}
  workload:
    kind: jobs
    jobs:
    - {name: blocker, stages: [{name: s, tasks: 1, duration: 5s, demand: {cpu: 1}}]}
    - {name: plain, submit: 1s, stages: [{name: s, tasks: 1, duration: 5s, demand: {cpu: 1}}]}
    - {name: missed, submit: 2s, importance: 2.5, stages: [{name: s, tasks: 1, duration: 5s, demand: {cpu: 1}}]}
  policies: [{kind: by_importance}]
  log: full
"""
BY_IMPORTANCE = """
from schedulers.kit.ordered import Ordered
from schedulers.core.policy import policies

@policies.register("by_importance", source="a test")
class ByImportance(Ordered):
    \"\"\"Serves the most important job first.\"\"\"

    def key(self, job, view):
        return (-job.spec.importance, view.tie(job, "submit"))
"""
STORED = """
import yaml
from rm_emulator import api
block = yaml.safe_load(open("important.yaml"))["spec"]["workload"]
made = api.generated(block, seed=1)
api.save_workload(made, "stored")
assert api.load_workload("stored") == made
assert [entry.job.importance for entry in made.jobs] == [0.0, 0.0, 2.5]
"""


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_a_field_of_a_job_is_a_line_in_one_file(tmp_path: Path) -> None:
    patch = EXAMPLES / "job_importance.patch"
    assert re.findall(r"^\+\+\+ b/(.*)$", patch.read_text("utf-8"), flags=re.MULTILINE) == ["schedulers/core/model.py"]
    for folder in ("schedulers", "rm_emulator", "tests/workload"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name, text in (("important.yaml", IMPORTANT), ("by_importance.py", BY_IMPORTANCE)):
        (tmp_path / name).write_text(text)
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def does(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python, program = sys.executable, (sys.executable, "-m", "rm_emulator")
    does("git", "apply", str(patch))
    does(*program, "run", "important.yaml", "--out", "out")
    (cell,) = (tmp_path / "out" / "runs").glob("*/*")
    ends = dict(pl.read_parquet(cell / "jobs.parquet").select("name", "finish_ms").iter_rows())
    assert ends == {"blocker": 5000, "missed": 10_000, "plain": 15_000}
    (log,) = cell.glob("events.jsonl*")
    assert b'"importance":2.5' in (gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes())
    assert "identical" in does(*program, "replay", str(log))
    does(python, "-c", STORED)
    assert "importance" in does(*program, "schema", "--markdown")
    does(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/workload/test_every_field.py", "-k", "importance"
    )


# -- a field of DagJob ----------------------------------------------------------------------------

HEAVY = """
apiVersion: rm-emulator.io/v1alpha1
kind: DagJob
metadata: {name: heavy}
spec:
  weight: 2.5
  stages:
  - name: s
    template:
      metadata: {annotations: {rm-emulator.io/run-seconds: "2"}}
      spec: {containers: [{name: c, resources: {requests: {cpu: "1", memory: 1Gi}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "9"}}
"""


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_a_field_of_a_dagjob_is_two_files_and_the_crd(tmp_path: Path) -> None:
    patch = EXAMPLES / "dagjob_weight.patch"
    files = re.findall(r"^\+\+\+ b/(.*)$", patch.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert files == ["manifests/crds/dagjob.yaml", "rm_emulator/scenario/objects.py", "schedulers/objects/dagjob.py"]
    for folder in ("schedulers", "rm_emulator", "manifests", "tests/kubernetes"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "heavy.yaml").write_text(HEAVY)
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    commands = [
        ["git", "apply", str(patch)],
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/kubernetes/test_crds.py"],
        [sys.executable, "-m", "rm_emulator", "run", "heavy.yaml", "--out", "out"],
    ]
    for command in commands:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    jobs = pl.read_parquet(next((tmp_path / "out" / "runs").glob("*/*/jobs.parquet")))
    assert jobs["weight"].to_list() == [2.5]
