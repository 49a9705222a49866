"""The image, without a container: the steps of its Dockerfile in an empty folder, and the process that comes of them.

No base image is needed: a step's absolute paths become paths in a folder, and `python` is the Python of the tests.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from devcluster.cluster import free_ports
from tests.kubernetes.calls import Authority
from tests.kubernetes.test_manifests import CONFIGS, MANIFESTS, ROOT, config_of, containers

DOCKERFILE = MANIFESTS / "Dockerfile"


class Step(NamedTuple):
    """One instruction of a Dockerfile."""

    word: str
    rest: str


def steps(stage: int) -> list[Step]:
    """The instructions after the stage's FROM."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE))
    parts = re.split(r"^FROM .*\n", text, flags=re.MULTILINE)[1:]
    return [Step(*line.split(maxsplit=1)) for line in parts[stage].splitlines() if line]


def copied() -> list[str]:
    """What the first stage takes of the repository."""
    return [name for step in steps(0) if step.word == "COPY" for name in shlex.split(step.rest)[:-1]]


def ignored() -> list[str]:
    return [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]


def test_everything_that_is_copied_exists() -> None:
    assert [name for name in copied() if not (ROOT / name).exists()] == []


def test_nothing_but_what_is_copied_is_sent_to_the_builder() -> None:
    first, *rest = ignored()
    assert first == "*"
    assert sorted(line[1:] for line in rest if line.startswith("!")) == sorted(copied())


def test_every_package_that_is_installed_is_copied() -> None:
    project = re.search(r"^include = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project is not None
    assert set(re.findall(r'"(\w+)\*"', project[1])) <= set(copied())


def test_the_last_stage_takes_the_program_alone() -> None:
    assert [step.rest for step in steps(1) if step.word == "COPY"] == ["--from=build /opt/rm /opt/rm"]


def test_the_image_runs_brain_as_the_manifests_do() -> None:
    (command,) = (json.loads(step.rest) for step in steps(1) if step.word == "CMD")
    (brain,) = (container for name, _, container in containers() if name.endswith("/brain"))
    assert command == brain["command"] + brain["args"]


def test_the_image_opens_the_ports_of_the_manifests() -> None:
    (exposed,) = (step.rest.split() for step in steps(1) if step.word == "EXPOSE")
    ours = [c for _, _, c in containers() if c["name"] != "kube-scheduler"]
    assert sorted(map(int, exposed)) == sorted(port["containerPort"] for c in ours for port in c["ports"])


# -- built --------------------------------------------------------------------------------------


def is_ignored(path: str) -> bool:
    return any(
        fnmatch(part, line.removeprefix("**/")) for line in ignored() if line[:3] == "**/" for part in path.split("/")
    )


class Image(NamedTuple):
    """program: /opt/rm of the image; environment: of its processes; home: their working folder."""

    program: Path
    environment: dict[str, str]
    home: Path

    def command(self, *words: str) -> list[str]:
        """As the image's PATH finds the program."""
        return [str(self.program / "bin" / words[0]), *words[1:]]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    root = tmp_path_factory.mktemp("image")
    source, arguments = root / "src", list[str]()
    for step in steps(0):
        if step.word == "WORKDIR":
            source.mkdir()
        elif step.word == "COPY":
            *names, target = shlex.split(step.rest)
            for name in names:
                copy(name, source / target if target != "./" else source / name)
        elif step.word == "ARG":
            arguments.append(step.rest)
        else:
            assert step.word == "RUN"
            run("\n".join([*arguments, step.rest.replace("/opt/rm", str(root / "opt" / "rm"))]), source)
    program = root / "opt" / "rm"
    for path in [program, *program.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    (root / "home").mkdir()
    environment = dict(part.split("=", 1) for step in steps(1) if step.word == "ENV" for part in shlex.split(step.rest))
    environment["PATH"] = environment["PATH"].replace("/opt/rm", str(program)).replace("$PATH", "/usr/bin:/bin")
    return Image(program, environment, root / "home")


def copy(name: str, target: Path) -> None:
    """A file or a folder of the repository, without what is not sent to the builder."""
    if (ROOT / name).is_file():
        shutil.copy(ROOT / name, target)
        return
    for path in sorted((ROOT / name).rglob("*")):
        inside = str(path.relative_to(ROOT / name))
        if path.is_file() and not is_ignored(inside):
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / inside)


def run(command: str, folder: Path) -> None:
    """A RUN, as the builder's shell does it. pip's cache is the machine's, so that only the first run downloads."""
    here = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    here["PATH"] = f"{Path(sys.executable).parent}:{here['PATH']}"
    command = command.replace("--no-cache-dir", "")
    done = subprocess.run(
        ["/bin/sh", "-ec", command], cwd=folder, env=here, text=True, capture_output=True, check=False
    )
    offline = ("No matching distribution found for", "Failed to establish a new connection")
    if os.environ.get("CI") != "true" and all(words in done.stderr for words in offline):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stdout + done.stderr


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p.relative_to(folder)): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob("*")}


@contextmanager
def unchanged(image: Image) -> Iterator[None]:
    """The program's folder, which is read-only in a cluster (and not for root, who may run these tests)."""
    before = files(image.program)
    yield
    assert files(image.program) == before


def config(folder: Path, port: int) -> Path:
    """The configuration of the overlay `dev`, with paths and ports that are free here."""
    settings = yaml.safe_load(config_of(CONFIGS[0], "rm-brain"))
    settings["storage"]["dir"] = str(folder)
    settings["extender"]["port"] = 0
    settings["management"] = {"address": "127.0.0.1", "port": port}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file


@pytest.mark.nightly
def test_nothing_is_compiled_at_run_time(image: Image) -> None:
    packages = next(image.program.glob("lib/python*/site-packages"))
    sources = [
        path
        for name in ("schedulers", "operators", "rm_emulator", "forecaster")
        for path in (packages / name).rglob("*.py")
    ]
    assert sources
    lacking = [s for s in sources if not list((s.parent / "__pycache__").glob(f"{s.stem}.cpython-*.pyc"))]
    assert lacking == []


@pytest.mark.nightly
@pytest.mark.parametrize("program", ["operators.extender", "operators.controllers", "forecaster", "rm_emulator"])
def test_a_program_says_how_it_is_used(image: Image, program: str) -> None:
    with unchanged(image):
        command = image.command("python", "-m", program, "--help")
        done = subprocess.run(
            command, cwd=image.home, env=image.environment, capture_output=True, text=True, check=True
        )
    assert "usage" in done.stdout.lower()


@pytest.mark.nightly
def test_the_configuration_of_the_manifests_is_accepted(image: Image, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(config_of(CONFIGS[0], "rm-brain"))
    command = image.command("python", "-m", "operators.extender", "--config", str(tmp_path / "config.yaml"), "--check")
    with unchanged(image):
        subprocess.run(command, cwd=image.home, env=image.environment, check=True)


@pytest.mark.nightly
def test_brain_lives_until_it_is_told_to_end_and_writes_nothing_beside_its_volume(image: Image, tmp_path: Path) -> None:
    """There is no API server, so brain lives and is not ready."""
    (words,) = (json.loads(step.rest) for step in steps(1) if step.word == "CMD")
    (port, nobody), account = free_ports(2), tmp_path / "account"
    account.mkdir()
    Authority(tmp_path).file.rename(account / "ca.crt")
    for name, text in (("token", "t"), ("namespace", "rm-system")):
        (account / name).write_text(text)
    cluster = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(nobody)}
    environment = image.environment | cluster | {"RM_SERVICEACCOUNT_DIR": str(account)}
    command = image.command(
        *(str(config(tmp_path, port)) if word == "/etc/rm/brain/config.yaml" else word for word in words)
    )
    with unchanged(image), (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=image.home, env=environment, stdout=log, stderr=log)
        try:
            until = time.monotonic() + 60
            while not lives(port):
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < until, (tmp_path / "log").read_text()
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, (tmp_path / "log").read_text()
        finally:
            process.kill()
    assert list(image.home.iterdir()) == []


def lives(port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/healthz", timeout=1) as answer:
            return answer.read() == b"ok"
    except OSError:
        return False
