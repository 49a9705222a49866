"""What the pages in docs/ show is true: their commands run in order, their files, YAML and Python are accepted."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from rm_emulator.cli import app
from rm_emulator.forecasts.job_file import read_jobs
from rm_emulator.learn import config as training
from rm_emulator.scenario.check import check
from rm_emulator.scenario.document import parse_documents
from rm_emulator.scenario.load import load
from schedulers.objects.names import RUN_SECONDS
from tests import test_readme as readme
from tests.commit import Commit
from tests.packaged import WHOLE, Packaged
from tests.pages import ROOT, SHELL, Block, Shell, blocks, commands, indexed, prints
from tests.workload import samples

PAGES = sorted(
    file.relative_to(ROOT).as_posix()
    for file in (ROOT / "docs").rglob("*.md")
    if not file.name.endswith(".in.md") and (ROOT / "docs" / "reference") not in file.parents
)
#: The pages of docs/index.md in its order, which is a reader's, and then those that it leaves out.
IN_ORDER = sorted(PAGES, key=lambda page: (page not in indexed(), indexed().index(page) if page in indexed() else 0))
WITH_COMMANDS = [page for page in IN_ORDER if any(block.language in SHELL for block in blocks(page))]


def _of_a_commit() -> Iterator[Any]:
    """The pages that the commit changed, and one of eight others; all by night: they take as long as a third of CI."""
    commit = Commit.here()
    drawn = commit.cases(__name__, WITH_COMMANDS, of=8)
    for page in WITH_COMMANDS:
        now = page in drawn or ROOT / page in (commit.changed or ())
        yield pytest.param(page, marks=() if now else pytest.mark.nightly)


#: How commands begin that no test here runs -> why not, and who does.
ELSEWHERE = {
    "docker build": "takes an image from a registry",
    "kubectl ": "needs a cluster: tests/kubernetes/test_guide_controlplane.py, test_tutorial_controlplane.py",
    "helm ": "likewise: tests/kubernetes/test_chart_controlplane.py",
    "export KUBECONFIG": "names a cluster: tests/kubernetes/test_tutorial_controlplane.py",
    "python -m devcluster ": "starts a control plane: tests/kubernetes/test_tutorial_controlplane.py",
    "rm-emulator snapshot ": "reads a cluster: tests/kubernetes/test_guide_controlplane.py",
    "rm-emulator record ": "reads the log of a brain: test_simulate_controlplane.py",
    "rm-emulator simulate -f job.yaml --kubeconfig ": "asks a cluster: test_simulate_controlplane.py",
    "rm-emulator simulate -f job.yaml --from memory.yaml": "likewise",
    "rm-emulator run live.yaml": "plays what a cluster holds: likewise",
    "rm-emulator run two.yaml": "likewise: test_tutorial_controlplane.py",
    "(cat candidates.yaml": "likewise: test_guide_controlplane.py",
    "rm-emulator run rehearsal.yaml": "likewise",
    "rm-emulator explain out/live ": "likewise",
    "sed 's/maxRunning": "likewise",
    "manifests/overlays/production/certificates.sh": "needs a cluster: tests/kubernetes/test_manifests_controlplane.py",
    "sacct ": "Slurm's program; its output is a sample",
    "curl ": "a ResourceManager's answer; a sample",
    "gsutil ": "a download of somebody's data; samples",
    "mkdir pai && for table": "unpacks a download of somebody's data; a sample",
    "rm-emulator bench": "minutes and more: tests/benchmarks",
    "python -m benchmarks.kubernetes.when_answers ": "likewise",
    "python -m studies.presets": "minutes: tests/studies",
    "rm-emulator train ": "minutes and hours: tests/learn/test_train.py",
    "tensorboard ": "another program, which serves a page until it is stopped",
    "export DASK_": "of a cluster: experiments/test_dask.py",
    "dask scheduler ": "starts one: likewise",
    "for host in ": "asks other machines: likewise",
    "rm-emulator run load-sweep --engine dask://": "needs workers: likewise",
    "rm-emulator fidelity monday --hadoop": "needs Hadoop and minutes: make fidelity; tests/hadoop/test_runner.py",
}
#: What those would have left in the folder -> the text, or the sample of a format.
LEFT = {
    "docs/operate/from-slurm.md": {"jobs.txt": samples.FILES["sacct"][1]},
    "docs/operate/from-yarn.md": {"apps.json": samples.FILES["yarn_apps"][1]},
    "docs/operate/from-kubernetes.md": {"pods.json": samples.FILES["pods"][1]},
    "docs/operate/from-swf.md": {"NASA-iPSC-1993-3.1-cln.swf.gz": samples.FILES["swf"][1]},
    "docs/operate/from-google.md": {
        "google/task_events/part-00000-of-00500.csv": samples.FILES["google2011"][1],
        "cell-a/instance_events-000000000000.json": samples.FILES["google2019"][1],
    },
    "docs/operate/from-wfcommons.md": {
        "WfInstances/pegasus/montage/montage-chameleon-2mass-005d-001.json": samples.FILES["wfformat"][1],
    },
    "docs/operate/from-alibaba.md": {
        "openb_pod_list_default.csv": samples.FILES["openb"][1],
        **{f"pai/{name}": text for name, text in samples.PAI.items()},
    },
    "docs/research/write-a-trace-reader.md": {
        "log.gwf": "1 0 5 60 4 -1 2048 4 -1 -1 1 U7 G1 X3 Q2" + " -1" * 14 + "\n"
    },
}
#: Blocks that are pictures, a file of the tree (test_examples.py), or for another program: kustomize renders its own in
#: kubernetes/test_renamed_controlplane.py.
OTHER = {
    "docs/design.md": {""},
    "docs/extending.md": {"python"},
    "docs/kubernetes.md": {"text"},
    "docs/platform/install.md": {"apiVersion: kustomize"},
    "docs/platform/watch-and-alert.md": {"scrape_configs"},
}


def elsewhere(command: str) -> bool:
    return any(command.startswith(begins) for begins in ELSEWHERE)


def test_no_command_is_excused_that_no_page_has() -> None:
    shown = [c.text for page in PAGES for block in blocks(page) for c in commands(block)]
    assert [begins for begins in ELSEWHERE if not any(text.startswith(begins) for text in shown)] == []


def test_what_is_run_once_for_all_is_shown_by_a_page() -> None:
    shown = {c.text for page in PAGES for block in blocks(page) for c in commands(block)}
    assert set(WHOLE) <= shown


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_kind_that_is_looked_at(page: str) -> None:
    kinds = {block.language for block in blocks(page)} - OTHER.get(page, set())
    assert kinds <= {*SHELL, "yaml", "python", "json", "xml", "csv", "toml"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The folder of a reader of README and all pages, from top to bottom."""
    return Shell(tmp_path_factory.mktemp("reader"))


@pytest.mark.slow
def test_readme_runs_in_order(shared: Shell, packaged: Packaged) -> None:
    (shared.folder / "case.yaml").write_text(readme.CASE)
    said = [_run(shared, readme.mine(*step), packaged) for step in readme.in_order()]
    assert any("jct_s.mean" in text for text in said)
    assert (shared.folder / "out" / "widest" / "runs" / "widest" / "1" / "jobs.parquet").exists()


@pytest.mark.slow
@pytest.mark.parametrize("page", list(_of_a_commit()))
def test_the_commands_of_a_page_run_in_order(page: str, shared: Shell, packaged: Packaged) -> None:
    """In the folder in which README and the pages before it ran; a page that runs alone has a fresh folder."""
    for name, text in LEFT.get(page, {}).items():
        (shared.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (shared.folder / name).write_text(text)
    for block in blocks(page):
        if block.file and not block.file.startswith("manifests/"):
            (shared.folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (shared.folder / block.file).write_text(block.text)
        for command in commands(block):
            if not elsewhere(command.text):
                printed = _run(shared, command.text, packaged)
                assert not command.says or prints(command.says, printed), f"{command.text}\n{printed}"


def _run(shell: Shell, command: str, packaged: Packaged) -> str:
    """What a command prints. Who has its results already is told so, as every reader is."""
    if command in WHOLE and not (shell.folder / "out" / WHOLE[command]).exists():
        return packaged.as_if_run(command, shell.folder)
    return shell.run(command)


# -- what a sentence names ------------------------------------------------------------------------

INLINE = sorted(
    {
        (page, command)
        for page in PAGES
        for command in re.findall(
            r"`((?:rm-emulator|python -m|make) [^`]+)`", (ROOT / page).read_text(encoding="utf-8")
        )
    }
)


@pytest.mark.parametrize(("page", "command"), INLINE)
def test_a_command_in_a_sentence_exists(page: str, command: str) -> None:
    first, *words = command.split()
    if first == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif first == "python":
        assert importlib.util.find_spec(words[1])
    else:
        found: Any = typer.main.get_command(app)
        while words and words[0] in getattr(found, "commands", ()):
            found = found.commands[words.pop(0)]
        known = {option for parameter in found.params for option in parameter.opts} | {"--help"}
        assert {word for word in words if word.startswith("--")} <= known
        assert not hasattr(found, "commands") or [word for word in words if not word.startswith("--")] == []


# -- YAML, Python, TOML ---------------------------------------------------------------------------

YAML = [
    pytest.param(block, id=f"{page}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.language == "yaml" and not any(block.text.startswith(word) for word in OTHER.get(page, ()))
]
BASE = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {name: page}
spec:
  cluster: {nodes: [{count: 150, capacity: {cpu: 8, memory: 32Gi, disk: 8, network: 8}}]}
  workload:
    kind: jobs
    jobs: [{name: a, stages: [{name: s, tasks: 2, demand: {cpu: 1}, duration: 2s}]}]
  policies: [{kind: fifo}]
"""
NODE = (
    "\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 8, memory: 32Gi, pods: 99}}\n"
)
JOB = """
---
apiVersion: rm-emulator.io/v1alpha1
kind: DagJob
metadata: {name: j}
spec:
  queue: scratch
  stages:
  - name: s
    template:
      metadata: {annotations: {rm-emulator.io/run-seconds: "3"}}
      spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


@pytest.mark.parametrize("block", YAML)
@pytest.mark.drawn(of=4)
def test_yaml_of_a_page_is_accepted(block: Block, tmp_path: Path) -> None:
    """A scenario or blocks of one, objects, training; brain's configuration: kubernetes/test_manifests.py.

    Known answers are run by the commands of their page.
    """
    file = tmp_path / "page.yaml"
    shown = [document.data for document in parse_documents(block.text.encode(), "page")]
    if "policy" in shown[0] or "cases" in shown[0]:
        return
    if "method" in shown[0]:
        file.write_text(block.text)
        assert training.read(file).name == shown[0]["name"]
        return
    if shown[0].get("kind") == "DagJob" and RUN_SECONDS not in block.text:
        file.write_text(block.text)  # asked about: nobody knows how long it runs
        assert read_jobs(file, yaml.safe_load(BASE), ("cpu", "memory"), 0)
        return
    if "apiVersion" not in shown[0]:
        whole = yaml.safe_load(BASE)
        whole["spec"].update(shown[0])
        file.write_text(yaml.safe_dump(whole))
    elif shown[0]["kind"] == "Scenario":
        # Without a cluster it stands in front of the objects of a live one.
        file.write_text(block.text if "cluster" in shown[0]["spec"] else block.text + NODE + JOB)
    else:
        file.write_text(block.text + NODE + (JOB if shown[0]["kind"] == "Queue" else ""))
    check(load(file))


PYTHON = {page: [b.text for b in blocks(page) if b.language == "python" and not b.file] for page in PAGES}


#: Pages whose Python is run elsewhere: below, and in experiments/test_dask.py.
NOT_HERE = ("docs/extending.md", "docs/operate/many-machines.md")


@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON[page] and page not in NOT_HERE])
def test_python_of_a_page_runs(page: str) -> None:
    for text in PYTHON[page]:
        exec(compile(text, page, "exec"), {})


def test_the_contract_test_of_the_guide_is_python_and_names_what_there_is() -> None:
    text = next(text for text in PYTHON["docs/extending.md"] if "import my_plugin" in text)
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    for node in imported:
        module = importlib.import_module(str(node.module))
        assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def test_the_entry_point_of_the_guide_is_of_the_group_that_is_read() -> None:
    (block,) = (block for block in blocks("docs/extending.md") if block.language == "toml")
    from rm_emulator import plugins

    assert list(tomllib.loads(block.text)["project"]["entry-points"]) == [plugins.GROUP]
