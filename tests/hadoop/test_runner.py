"""Fresh real runs, with programs that only pretend to be Java and Maven."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.hadoop import runner
from rm_emulator.hadoop.configuration import Configuration
from rm_emulator.hadoop.xml import read_xml
from rm_emulator.issues import InvalidInput, Issues

from .conftest import MakeFolder

VERSION = '[ "$1" = -version ] && { echo "openjdk version \\"17.0.1\\" 2021" >&2; exit 0; }\n'
RUNS = """
mkdir -p out/metrics
printf 'JobID,real_start_time,simulate_start_time,simulate_end_time\\napp_1,0,0,9000\\n' > out/jobruntime.csv
printf 't,value\\n100,0\\n101,1024\\n' > out/metrics/variable.cluster.allocated.memory.csv
printf 't,value\\n100,0\\n101,1\\n' > out/metrics/variable.cluster.allocated.vcores.csv
"""
FAILS = "echo 'INFO fine'; echo 'java.lang.NullPointerException: no port'; exit 1\n"
MAVEN = 'for a; do case $a in -Dmdep.outputFile=*) touch "$0.jar"; printf "%s.jar" "$0" > "${a#*=}";; esac; done\n'


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH with a java that leaves results and an mvn that names one jar."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write(folder, "java", VERSION + RUNS)
    write(folder, "mvn", MAVEN)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(runner, "_own_network", list)
    return folder


def write(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}")
    (folder / name).chmod(0o755)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"needs java .* and mvn \(Maven 3\) on the PATH"):
        runner.find_tools()


def test_the_release_of_java_is_read(programs: Path) -> None:
    assert runner.find_tools().java_version == 17


def test_an_old_java_names_its_release_in_the_old_way(programs: Path) -> None:
    write(programs, "java", 'echo "java version \\"1.8.0_292\\"" >&2\n')
    assert runner.find_tools().java_version == 8


@pytest.mark.slow
def test_runs_are_numbered_on(programs: Path, folder: MakeFolder, tmp_path: Path) -> None:
    path = folder()
    (path / "results").mkdir()
    (path / "results" / "run-4.csv").write_text("x")
    made = runner.run_real(path, 2, cache=tmp_path / "cache")
    assert [p.name for p in made] == ["run-5.csv", "run-6.csv"]
    assert (path / "results" / "run-6-allocated.csv").read_text() == "second,memory_mb,vcores\n0,0,0\n1,1024,1\n"


def test_a_run_that_fails_leaves_nothing_and_says_why(programs: Path, folder: MakeFolder, tmp_path: Path) -> None:
    write(programs, "java", VERSION + FAILS)
    path = folder()
    with pytest.raises(InvalidInput, match="no port"):
        runner.run_real(path, 1, cache=tmp_path / "cache")
    assert list((path / "results").iterdir()) == []


def test_the_class_path_is_asked_for_once(programs: Path, tmp_path: Path) -> None:
    tools = runner.find_tools()
    found = runner.class_path(tools, tmp_path / "cache")
    write(programs, "mvn", "exit 1\n")
    assert runner.class_path(tools, tmp_path / "cache") == found


def test_a_class_path_whose_jars_are_gone_is_asked_for_again(programs: Path, tmp_path: Path) -> None:
    tools = runner.find_tools()
    found = runner.class_path(tools, tmp_path / "cache")
    Path(found).unlink()
    assert runner.class_path(tools, tmp_path / "cache") == found
    assert Path(found).exists()


def test_maven_s_own_words_are_told(programs: Path, tmp_path: Path) -> None:
    write(programs, "mvn", "echo '[ERROR] no such artefact'; exit 1\n")
    with pytest.raises(InvalidInput, match="no such artefact"):
        runner.class_path(runner.find_tools(), tmp_path / "cache")


def test_a_real_run_needs_the_runner_s_file(programs: Path, folder: MakeFolder) -> None:
    path = folder()
    (path / "conf" / "sls-runner.xml").rename(path / "conf" / "yarn-site.xml")
    with pytest.raises(InvalidInput, match=r"needs conf/sls-runner\.xml"):
        runner.run_real(path, 1)


def test_addresses_are_free_ports_of_the_loopback(folder: MakeFolder, tmp_path: Path) -> None:
    path = folder(sls={"yarn.resourcemanager.address": "0.0.0.0:8032"})
    work = tmp_path / "work"
    work.mkdir()
    runner._prepare(path, work)
    conf = Configuration(Issues())
    conf.read(work / "conf" / "sls-runner.xml")
    addresses = {p.value for p in conf if p.name.startswith("yarn.resourcemanager") and p.name.endswith("address")}
    assert addresses == {"127.0.0.1:0"}
    assert not conf.issues.count


@pytest.mark.parametrize("there", [None, "<configuration>\n</configuration>\n"])
def test_what_sls_does_not_begin_without_is_added(folder: MakeFolder, tmp_path: Path, there: str | None) -> None:
    path = folder()
    if there is not None:
        (path / "conf" / "core-site.xml").write_text(there)
    work = tmp_path / "work"
    work.mkdir()
    runner._prepare(path, work)
    found = {}
    for name in ("sls-runner.xml", "core-site.xml"):
        conf = Configuration(Issues())
        conf.read(work / "conf" / name)
        assert not conf.issues.count
        found |= {p.name: p.value for p in conf}
        assert found["hadoop.security.token.service.use_ip"] == "false"
    assert found["yarn.sls.am.type.mapreduce"].endswith(".MRAMSimulator")


def test_the_folder_itself_is_not_changed(programs: Path, folder: MakeFolder, tmp_path: Path) -> None:
    path = folder()
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    runner.run_real(path, 1, cache=tmp_path / "cache")
    assert {p: p.read_bytes() for p in before} == before


def test_java_from_9_on_is_opened(programs: Path) -> None:
    tools = runner.find_tools()
    assert any(word.startswith("--add-opens") for word in runner._command(tools, "x.jar"))
    old = runner.Tools(tools.java, tools.maven, 8)
    assert not any(word.startswith("--add-opens") for word in runner._command(old, "x.jar"))


def test_the_list_of_jars_is_xml_and_names_the_release() -> None:
    root = read_xml(runner.POM)
    properties = root.child("properties")
    assert properties is not None
    assert properties.children[0].text == runner.VERSION
