"""Traces from file to run, by the commands: real files of ../shared/data where there is one, else the samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.workload import formats
from tests.cli.conftest import Command
from tests.workload import samples

DATA = Path(__file__).parents[2] / "../shared/data"
REAL = {
    "swf": ("NASA-iPSC-1993-3.1-cln.swf.gz", 18_239, 309_953),
    "openb": ("openb_pod_list_default.csv", 7_255, 7_255),
    "alibaba2017": ("alibaba-2017-batch_task.csv.gz", 11_644, 10_214_262),
    "alibaba2018": ("alibaba-2018-dags-batch_task.csv.gz", 3_690, 242_068),
}
SCENARIO = """\
apiVersion: rm-emulator.io/v1alpha1
kind: Scenario
metadata: {{name: own}}
spec:
  cluster:
    nodes: [{{count: 24, capacity: {{cpu: 128, memory: 2Ti, gpu: 16, network: 1}}}}]
    profile: events
  workload: {{kind: trace, path: {path}, format: {format}, options: {options}}}
  policies: [{{kind: fifo}}]
"""


def through(command: Command, name: str, source: Path, folder: Path, **options: Any) -> int:
    """`convert`, `traces describe`, `check` and `run`; how many jobs were run."""
    listed = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
    assert command("convert", name, source, folder / "w", *listed).code == 0
    described = command("traces", "describe", source, "--json", *listed)
    assert (described.code, json.loads(described.out)["notes"][0]) == (0, f"read as {name}")
    text = SCENARIO.format(path=source, format=name, options=json.dumps(options))
    if name == "hadoop":
        text = text.replace("profile: events", "profile: yarn")  # its application masters need containers
    (folder / "own.yaml").write_text(text)
    assert command("check", folder / "own.yaml").code == 0
    ran = command("run", folder / "own.yaml", "--out", folder / "out", "--json")
    assert ran.code == 0, ran.err
    assert (folder / "out" / "report.html").exists()
    assert len(formats.stored(folder / "w").workload.jobs) == json.loads(described.out)["jobs"]
    return int(json.loads(described.out)["jobs"])


@pytest.mark.parametrize("name", samples.NAMES)
@pytest.mark.slow
@pytest.mark.drawn(of=2)
@pytest.mark.usefixtures("no_report")
def test_a_sample_goes_all_the_way(name: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert through(command, name, samples.write(name, tmp_path / "in"), tmp_path) >= 1


@pytest.mark.parametrize("name", ["swf", "openb"])
@pytest.mark.slow
@pytest.mark.drawn(of=2)
@pytest.mark.usefixtures("no_report")
def test_the_first_jobs_of_a_real_file_go_all_the_way(name: str, command: Command, tmp_path: Path) -> None:
    source = DATA / REAL[name][0]
    if not source.exists():
        pytest.skip(f"needs the trace at {source}")
    assert through(command, name, source.resolve(), tmp_path, limit=150) == 150


@pytest.mark.parametrize("name", REAL)
@pytest.mark.drawn(of=4)
def test_a_real_file_is_guessed_and_read_whole(name: str) -> None:
    file, jobs, tasks = REAL[name]
    if not (DATA / file).exists():
        pytest.skip(f"needs the trace at {DATA / file}")
    trace = formats.opened(DATA / file)
    assert (trace.notes[0], len(trace.workload.jobs), trace.workload.tasks) == (f"read as {name}", jobs, tasks)


def test_nodes_of_openb_are_no_trace(command: Command) -> None:
    if not (DATA / "openb_node_list_all_node.csv").exists():
        pytest.skip(f"needs {DATA}")
    said = command("traces", "describe", DATA / "openb_node_list_all_node.csv")
    assert (said.code, "it looks like none of the formats (name it with --format: " in said.err) == (2, True)


def test_convert_prints_the_mapping_to_keep(command: Command, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("JobID,At,Took\na,1709287200000,5\n")
    said = command(
        "convert", "csv", tmp_path / "jobs.csv", tmp_path / "w", "--map", "job=JobID,submit=At,durations=Took"
    )
    assert said.out.splitlines()[1:] == [
        "# Columns of jobs.csv: rm-emulator convert csv --map-file THIS_FILE",
        "job: JobID",
        "submit: At@ms",
        "durations: Took",
    ]


def test_convert_writes_the_mapping_and_reads_it_again(command: Command, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("JobID,Took\na,5\n")
    keep = ("--map-file", tmp_path / "map.yaml")
    table = ("convert", "csv", tmp_path / "jobs.csv")
    assert command(*table, tmp_path / "w", "--map", "job=JobID,durations=Took", *keep).code == 0
    assert command(*table, tmp_path / "again", *keep).code == 0
    again = command(*table, tmp_path / "third", "--map", "job=JobID,durations=Took", *keep)
    assert (again.code, "is there already" in again.err) == (2, True)


def test_bad_rows_are_left_out_when_asked(command: Command, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,durations\na,5\nb,x\n")
    assert command("convert", "csv", tmp_path / "jobs.csv", tmp_path / "w").code == 2
    said = command("convert", "csv", tmp_path / "jobs.csv", tmp_path / "w", "--skip-bad-rows")
    assert (said.code, said.err) == (
        0,
        "note: rows left out, they cannot be read: 1 (line 3 column 'durations': 'x' is not a number)\n",
    )


def test_a_format_without_rows_has_none_to_leave_out(command: Command, tmp_path: Path) -> None:
    said = command("convert", "decima", tmp_path, tmp_path / "w", "--skip-bad-rows")
    assert (said.code, said.err) == (2, "trace format 'decima' has no rows to leave out\n")


def test_a_list_of_mistakes_of_a_scenario_is_cut_after_20(command: Command, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,durations\n" + "a,x\n" * 30)
    text = SCENARIO.format(path=tmp_path / "jobs.csv", format="csv", options="{}")
    (tmp_path / "s.yaml").write_text(text)
    said = command("check", tmp_path / "s.yaml")
    lines = said.err.splitlines()
    assert (said.code, len(lines), lines[-2]) == (2, 22, "... and 10 more")
    assert lines[-1].startswith("--skip-bad-rows leaves out rows")


COLUMNS = {"job": "Auftrag", "submit": "Eingang", "durations": "Ende-Start", "cpu": "Kerne", "memory": "Speicher"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["csv", "alibaba2017", "alibaba2018", "hadoop"])
@pytest.mark.drawn(of=4)
def test_a_file_with_all_facts_goes_all_the_way(name: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert through(command, name, samples.whole(name, tmp_path / "in"), tmp_path) >= 1


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_a_table_with_semicolons_and_local_dates_goes_all_the_way(command: Command, tmp_path: Path) -> None:
    (tmp_path / "local.csv").write_text(samples.LOCAL_CSV)
    options = {"delimiter": ";", "map": COLUMNS}
    (tmp_path / "own.yaml").write_text(
        SCENARIO.format(path=tmp_path / "local.csv", format="csv", options=json.dumps(options))
    )
    assert command("traces", "describe", tmp_path / "own.yaml").code == 0
    ran = command("run", tmp_path / "own.yaml", "--out", tmp_path / "out", "--json")
    assert (ran.code, (tmp_path / "out" / "report.html").exists()) == (0, True), ran.err


def test_a_table_with_semicolons_says_what_to_set(command: Command, tmp_path: Path) -> None:
    (tmp_path / "local.csv").write_text(samples.LOCAL_CSV)
    said = command("traces", "describe", tmp_path / "local.csv", "--format", "csv")
    assert (said.code, "set the option delimiter" in said.err) == (2, True)


def test_a_decimal_comma_is_shown_with_its_row(command: Command, tmp_path: Path) -> None:
    (tmp_path / "commas.csv").write_text(samples.COMMAS_CSV)
    mapping = ",".join(f"{ours}={yours}" for ours, yours in COLUMNS.items())
    options = ("--option", "delimiter=;", "--map", mapping)
    said = command("convert", "csv", tmp_path / "commas.csv", tmp_path / "w", *options)
    assert (said.code, "commas.csv:2 column 'Kerne': not a quantity: '1,5'" in said.err) == (2, True)
    assert "(a decimal comma is read with --option decimal=,)" in said.err
    again = command("convert", "csv", tmp_path / "commas.csv", tmp_path / "w", *options, "--option", "decimal=,")
    assert again.code == 0


def test_a_scenario_reads_decimal_commas(command: Command, tmp_path: Path) -> None:
    (tmp_path / "commas.csv").write_text(samples.COMMAS_CSV)
    options = {"delimiter": ";", "decimal": ",", "map": COLUMNS}
    (tmp_path / "own.yaml").write_text(
        SCENARIO.format(path=tmp_path / "commas.csv", format="csv", options=json.dumps(options))
    )
    assert command("check", tmp_path / "own.yaml").code == 0
    (tmp_path / "own.yaml").write_text((tmp_path / "own.yaml").read_text().replace('"decimal": ","', '"decimal": "x"'))
    said = command("check", tmp_path / "own.yaml")
    assert (said.code, "spec.workload.options.decimal: 'x' is not accepted" in said.err) == (2, True)
