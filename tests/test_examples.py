"""The examples of docs/extending.md: each keeps the promises of its kind, does what it says, and is shown as it is."""

from __future__ import annotations

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
from rm_emulator.results import chart
from rm_emulator.scenario.schema import json_schema
from rm_emulator.testing import (
    POLICY_CHECKS,
    PolicyCheck,
    Subject,
    case,
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
GUIDE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
LANGUAGES = {".py": "python", ".patch": "diff"}
#: The README shows this one.
ELSEWHERE = {"widest_first.py"}


@pytest.fixture(autouse=True)
def _charts_as_before() -> Iterator[None]:
    before = {each.id: each for each in chart.registered()}  # imports all: a module registers its chart only once
    yield
    chart._CHARTS.clear()
    chart._CHARTS.update(before)


def load(*names: str) -> None:
    load_plugins([EXAMPLES / f"{name}.py" for name in names])


# -- the guide ------------------------------------------------------------------------------------


SHOWN = sorted(f for f in EXAMPLES.rglob("*.*") if f.suffix in LANGUAGES and f.name not in ELSEWHERE)


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.name)
def test_an_example_is_shown_as_it_is(file: Path) -> None:
    blocks = re.findall(rf"```{LANGUAGES[file.suffix]}\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert file.read_text(encoding="utf-8") in blocks


@pytest.mark.parametrize("page", ["docs/extending.md", "docs/glossary.md", "docs/design.md", "CONTRIBUTING.md"])
def test_every_link_of_a_newcomers_page_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", text):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("page", ["docs/extending.md", "docs/design.md", "CONTRIBUTING.md"])
def test_every_file_that_a_newcomers_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:schedulers|rm_emulator|operators|tests|docs|manifests)/[\w./-]+)`", text))
    assert named
    assert {name for name in named if "NAME" not in name and not (ROOT / name).exists()} == set()


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
]


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", POLICIES, ids=str)
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
    command = [sys.executable, "-m", "rm_emulator", "run", "users.yaml", "--out", "out", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Waiting time by user" in page
    assert {"ann", "ben"} <= set(re.findall(r"<td>(\w+)</td>", page)) | set(re.findall(r"\w+", page))


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
def test_a_scenario_names_the_file_of_its_profile_and_sets_it(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "job_tracker.py", tmp_path)
    text = SCENARIO.replace("spec:", "spec:\n  plugins: [job_tracker.py]", 1)
    text = text.replace("cluster: {", "cluster: {profile: {kind: job_tracker, out_of_band: true}, ", 1)
    (tmp_path / "hadoop.yaml").write_text(text.replace("user_ageing", "fair"))
    command = [sys.executable, "-m", "rm_emulator", "run", "hadoop.yaml", "--out", "out", "--json", "--jobs", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"]


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
