from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rm_emulator.scenario import examples

pytestmark = pytest.mark.usefixtures("no_report")

HELLO = "hello"
COMMANDS = {
    *("run", "init", "check", "schema", "policies", "predictors", "traces"),
    *("convert", "explain", "replay", "compare", "wishes", "case", "bench", "train"),
}


def test_help_lists_every_command(command: Callable[..., Any]) -> None:
    said = command("--help")
    assert said.code == 0
    listed = [line.split()[0] for line in said.out.partition("Commands:")[2].splitlines() if line.strip()]
    assert set(listed) >= COMMANDS


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (
            ("--help",),
            ("numpy", "scipy", "polars", "plotly", "pydantic", "simpy", "jinja2", "yaml", "msgspec", "rich.table"),
        ),
        (
            ("check", "demo"),
            ("scipy", "polars", "plotly", "jinja2", "schedulers.policies.graphene", "schedulers.learned"),
        ),
        (("policies", "gs"), ("scipy", "polars", "simpy", "rm_emulator.scenario.schema", "schedulers.policies.fifo")),
        (("schema",), ("scipy", "plotly", "jinja2")),
        (("explain", "none", "none"), ("scipy", "plotly", "jinja2", "simpy", "schedulers.policies")),
    ],
)
def test_a_command_imports_only_what_it_needs(command: tuple[str, ...], heavy: tuple[str, ...]) -> None:
    code = (
        "import sys, rm_emulator.cli as c\n"
        f"sys.argv = ['rm-emulator', *{command!r}]\n"
        "try: c.main()\n"
        "except SystemExit: pass\n"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_what_a_library_in_c_prints_is_no_part_of_the_output() -> None:
    """HiGHS prints a line now and then that nothing turns off."""
    code = "import os; from rm_emulator.program import end; end(lambda: (os.write(1, b'theirs'), print('ours')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("ours\n", "theirs")


def test_version(command: Callable[..., Any]) -> None:
    import tomllib

    import rm_emulator

    project = tomllib.loads((Path(rm_emulator.__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert command("--version").out == f"rm-emulator {project['version']}\n"


def test_an_unknown_command_names_the_nearest(command: Callable[..., Any]) -> None:
    said = command("chekc")
    assert said.code == 2
    assert "Did you mean 'check'?" in said.err


def test_check_of_a_good_scenario(command: Callable[..., Any]) -> None:
    said = command("check", HELLO)
    assert said.code == 0
    assert "ok (3 policies x 1 seeds; 4 nodes; 3 jobs, 20 tasks), load " in said.out


def test_check_warns_where_launches_are_much_of_what_tasks_hold(command: Callable[..., Any]) -> None:
    said = command("check", HELLO, "--set", "spec.cluster.startup=20s")
    assert said.code == 0
    assert (
        "warning: launching tasks takes about 43% of what they hold: the load is 5.73, the held load about" in said.err
    )
    assert "warning" not in command("check", HELLO).err


def test_check_names_every_mistake_with_code_2(command: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("apiVersion: rm-emulator.io/v1alpha1\nkind: Scenario\nmetadata: {nam: x}\nspec: {sedes: [1]}\n")
    said = command("check", path)
    assert said.code == 2
    assert said.out == ""
    assert (
        f"{path}:3:12 metadata.nam: unknown key 'nam' (accepted: name, description), did you mean 'name'?" in said.err
    )
    assert f"{path}:4:8 spec.sedes: unknown key 'sedes'" in said.err


def test_run_with_bad_input_writes_nothing(command: Callable[..., Any], tmp_path: Path) -> None:
    said = command("run", HELLO, "--set", "spec.cluster.nodes[0].capacity.cpu=100m", "--out", tmp_path / "out")
    assert said.code == 2
    assert "larger than every node" in said.err
    assert list(tmp_path.iterdir()) == []


def test_run_writes_to_out_and_the_scenario_s_name(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = command("run", HELLO)
    assert said.code == 0
    assert "sjf" in said.out
    assert (tmp_path / "out" / "hello" / "report.html").exists()


def test_run_with_json_prints_one_document_and_nothing_else(command: Callable[..., Any], tmp_path: Path) -> None:
    said = command("run", HELLO, "--json", "--out", tmp_path / "out", "--seeds", "4")
    document = json.loads(said.out)
    assert [run["seed"] for run in document["runs"]] == [4, 4, 4]
    assert document == json.loads((tmp_path / "out" / "summary.json").read_text())


def test_a_failed_expectation_is_code_1_with_the_figures(command: Callable[..., Any], tmp_path: Path) -> None:
    said = command("run", HELLO, "--set", "spec.expect=[fifo.jobs > 5]", "--out", tmp_path / "out")
    assert said.code == 1
    assert "expectation failed: fifo.jobs > 5 (3 against 5)" in said.err


def test_what_a_cell_dies_of_is_said_in_the_terminal(command: Callable[..., Any], tmp_path: Path) -> None:
    plugin = tmp_path / "lazy.py"
    plugin.write_text(
        "from schedulers.core.policy import policies\nfrom schedulers.policies.fifo import Fifo\n\n"
        '@policies.register("lazy", source="a test")\nclass Lazy(Fifo):\n    """Does nothing."""\n\n'
        "    def schedule(self, view, offer):\n        return\n        yield\n"
    )
    changes = ["--set", "spec.policies=[{kind: lazy}]", "--set", "spec.baseline=lazy", "--set", "spec.expect=[]"]
    said = command("run", HELLO, "--plugin", plugin, *changes, "--out", tmp_path / "out")
    assert said.code == 1
    assert "lazy seed 1 failed: 3 jobs can never finish; the first is " in said.err
    assert "Traceback" not in said.err


def test_a_full_disk_is_one_line(command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "out/summary.json")

    monkeypatch.setattr("rm_emulator.results.summary.build", full)
    said = command("run", HELLO, "--out", tmp_path / "out")
    assert (said.code, said.err.splitlines()[-1]) == (2, "out/summary.json: No space left on device")


def test_another_scenario_s_directory_is_code_2(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    said = command("run", HELLO, "--set", "spec.cluster.heartbeat=2s", "--out", tmp_path / "out")
    assert said.code == 2
    assert "holds the results of another scenario" in said.err
    assert "--overwrite" in said.err


def test_a_second_run_reuses_what_is_there(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    assert "3 of 3 runs are there already" in command("run", HELLO, "--out", tmp_path / "out").err


@pytest.mark.parametrize("name", ["policies", "predictors", "placers", "profiles", "traces"])
def test_listings_for_machines(command: Callable[..., Any], name: str) -> None:
    entries = json.loads(command(name, "--json").out)
    assert entries
    assert all({"name", "summary", "source", "parameters"} <= entry.keys() for entry in entries)


@pytest.mark.parametrize("name", ["policies", "predictors", "placers", "profiles", "traces"])
def test_listings_for_people(command: Callable[..., Any], name: str) -> None:
    names = [entry["name"] for entry in json.loads(command(name, "--json").out)]
    text = command(name).out
    assert all(f"\n{entry}  " in f"\n{text}" for entry in names)


def test_schema_is_a_json_schema(command: Callable[..., Any]) -> None:
    assert json.loads(command("schema").out)["$schema"].startswith("https://json-schema.org/")


def test_init_lists_the_examples(command: Callable[..., Any]) -> None:
    listed = [line.split()[0] for line in command("init").out.splitlines()]
    assert {"demo", "hello", "tpch", "my-trace", "slearn-vs-history", "dag-heterogeneous"} <= set(listed)


def test_init_copies_an_example_that_then_checks(command: Callable[..., Any], tmp_path: Path) -> None:
    said = command("init", "my-trace", tmp_path)
    assert said.out.splitlines() == [str(tmp_path / "my-trace.yaml"), str(tmp_path / "my-trace.csv")]
    checked = command("check", tmp_path / "my-trace.yaml")
    assert checked.code == 0
    assert "note: the queues' `weight` means nothing to fifo, fair, slearn (policies that use it: " in checked.err


def test_init_never_overwrites(command: Callable[..., Any], tmp_path: Path) -> None:
    command("init", "hello", tmp_path)
    said = command("init", "hello", tmp_path)
    assert said.code == 2
    assert "is there already" in said.err


def test_convert_writes_a_workload_that_a_scenario_can_use(command: Callable[..., Any], tmp_path: Path) -> None:
    command("init", "my-trace", tmp_path)
    said = command("convert", "csv", tmp_path / "my-trace.csv", tmp_path / "w", "--option", "time_unit=s")
    assert said.code == 0
    changes = ["--set", "spec.workload={kind: trace, path: w}"]
    assert "40 jobs" in command("check", tmp_path / "my-trace.yaml", *changes).out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["convert", "cvs", "a", "b"], "unknown trace format 'cvs', did you mean 'csv'?"),
        (["convert", "csv", "a.csv", "b"], "a.csv: no such file"),
        (["convert", "csv", "a.csv", "b", "--option", "unti=s"], "has no setting 'unti'"),
        (["explain", "nowhere", "job"], "no such file or run directory"),
        (["replay", "nowhere"], "no such file or run directory"),
        (["run", "hello", "--jobs", "0"], "greater than or equal to 1"),
        (["run", "hello", "--plugin", "nowhere.py"], "nowhere.py: no such plug-in file"),
        (["run", "helo"], "did you mean 'hello'?"),
        (["compare", "a", "b", "c"], "one or two run directories"),
    ],
)
def test_bad_arguments_are_code_2_with_one_clear_message(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = command(*arguments)
    assert said.code == 2
    assert says in said.err
    assert "Traceback" not in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["w", "my-trace.yaml"])
def test_traces_describe_a_stored_workload_and_a_scenario_s(
    command: Callable[..., Any], tmp_path: Path, what: str
) -> None:
    command("init", "my-trace", tmp_path)
    command("convert", "csv", tmp_path / "my-trace.csv", tmp_path / "w")
    assert json.loads(command("traces", "describe", tmp_path / what, "--json").out)["jobs"] == 40


def test_run_describes_the_workload(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "workload.json").read_text())["tasks"] == 20


def test_replay_of_a_run_directory(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    assert command("replay", tmp_path / "out", "--label", "sjf").code == 0


def test_explain_tells_of_a_job(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    said = command("explain", tmp_path / "out", "report")
    assert said.code == 0
    assert "finished" in said.out
    assert said.out.endswith("What would have helped? With --advise it is tried.\n")


def test_explain_with_advice_says_on_standard_error_what_it_tries(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    said = command("explain", tmp_path / "out", "report", "--advise")
    assert (said.code, said.err.splitlines()[-1][:5]) == (0, "[6/6]")
    assert "(tried)" in said.out


def test_explain_that_is_quiet_says_nothing_of_what_it_tries(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    said = command("explain", tmp_path / "out", "report", "--advise", "-q")
    assert ("(tried)" in said.out, said.err) == (True, "")


def test_explain_with_json_prints_one_document(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    found = json.loads(command("explain", tmp_path / "out", "report", "--advise", "--json").out)
    assert set(found) == {"log", "story", "advice", "submitted"}
    assert (found["story"]["job"], found["advice"]["tried"][0]["helped"]) == ("report", True)


def test_explain_with_json_and_an_unknown_job_prints_no_document(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    said = command("explain", tmp_path / "out", "reprot", "--json")
    assert (said.code, said.out) == (2, "")
    assert "did you mean 'report'" in said.err


def test_explain_with_json_of_a_log_that_does_not_replay_prints_no_document(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    log = next(tmp_path.glob("out/runs/*/1/events.jsonl"))
    log.write_bytes(
        log.read_bytes().replace(b'"decision":"Place","container":2', b'"decision":"Place","container":9', 1)
    )
    said = command("explain", log, "report", "--json")
    assert (said.code, said.out) == (1, "")
    assert "the replay differs from the log here" in said.err


def test_interrupted_advice_says_that_nothing_was_written(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("run", HELLO, "--out", tmp_path / "out")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rm_emulator.experiments.advice.assemble", interrupt)
    said = command("explain", tmp_path / "out", "report", "--advise")
    assert (said.code, said.out) == (130, "")
    assert said.err.endswith("interrupted: nothing was written\n")


def test_compare_with_json_prints_one_document(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", HELLO, "--out", tmp_path / "out")
    assert json.loads(command("compare", tmp_path / "out", "--json").out)


def test_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from rm_emulator import cli

    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(cli, "app", lambda **_: (_ for _ in ()).throw(KeyError("a bug")))
    with pytest.raises(KeyError, match="a bug"):
        cli.main()


def _given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_scenario_from_standard_input(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (examples.FOLDER / "my-trace.yaml").read_text()
    monkeypatch.chdir(examples.FOLDER)  # what paths in it are relative to
    _given(monkeypatch, text)
    assert command("check", "-").out.startswith("standard input: ok (")
    _given(monkeypatch, text)
    assert command("run", "-", "--out", tmp_path / "out", "--quiet").code == 0
    assert (tmp_path / "out/summary.json").exists()


def test_a_mistake_in_standard_input_has_its_line(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    _given(monkeypatch, "apiVersion: rm-emulator.io/v1alpha1\nkind: Scenari\n")
    said = command("check", "-")
    assert (said.code, said.err.split(":")[:2]) == (2, ["standard input", "2"])
    _given(monkeypatch, "")
    assert command("check", "-").err == "standard input:1:1: the file is empty\n"


@pytest.mark.parametrize("word", ["-q", "--quiet"])
@pytest.mark.slow
@pytest.mark.drawn(of=2)
def test_quiet_says_only_what_is_wrong(command: Callable[..., Any], tmp_path: Path, word: str) -> None:
    loud, still = (command("run", HELLO, "--out", tmp_path / name, *more) for name, more in (("a", ()), ("b", (word,))))
    assert "[1/3]" in loud.err
    assert still.err == ""
    assert still.out.replace("/b/", "/a/") == loud.out
    failed = command("run", HELLO, "--out", tmp_path / "c", word, "--set", "spec.expect=[fifo.jct_s.mean < 0]")
    assert failed.code == 1
    assert failed.err.startswith("expectation failed: ")


def test_one_policy_is_told_in_full(command: Callable[..., Any]) -> None:
    said = command("policies", "capped_sjf").out
    assert said.startswith("capped_sjf  As `sjf_cp`, but a job is served first only up to")
    assert "Jobs without an estimate come last and" in said
    assert "SJF-CP of Decima (SIGCOMM'19)" in said
    assert "    containers = 8.0  (number) number of containers up to which a job with 500 s" in said
    assert "    - {kind: capped_sjf, predictor: {kind: slearn}, containers: 8.0, growth: 0.75, length: task}\n" in said
    assert "sjf_cp  " not in said


@pytest.mark.parametrize(
    ("kind", "name"),
    [("policies", "gs"), ("predictors", "slearn"), ("placers", "dot"), ("charts", "shares"), ("profiles", "sls")],
)
def test_one_name_as_json(command: Callable[..., Any], kind: str, name: str) -> None:
    entry = json.loads(command(kind, name, "--json").out)
    assert entry["name"] == name
    assert entry["example"].startswith("{kind: ")
    listed = next(each for each in json.loads(command(kind, "--json").out) if each["name"] == name)
    assert listed == {key: value for key, value in entry.items() if key not in ("description", "example")}


def test_one_chart_is_told_with_its_settings_and_where_they_are_given(command: Callable[..., Any]) -> None:
    said = command("charts", "shares").out
    assert said.startswith("shares  Share of each queue over time")
    assert "    queues = 12  (integer) areas at most" in said
    assert "    report:\n      charts:\n      - {kind: shares, queues: 12}\n" in said


def test_an_unknown_policy_has_the_nearest(command: Callable[..., Any]) -> None:
    said = command("policies", "graphen")
    assert said.code == 2
    assert "unknown policy 'graphen', did you mean 'graphene'?" in said.err


def completed(line: str, cwd: Path) -> list[str]:
    """What the shell is offered at the end of a command line."""
    words = line.split(" ")
    asked = {"_RM_EMULATOR_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-m", "rm_emulator"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd, env={**os.environ, **asked})
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rm-emulator pol", ["policies"]),
        ("rm-emulator run he", ["hello"]),
        ("rm-emulator check s", ["slearn-vs-history", "sparrow", "scenarios/", "some.yaml"]),
        ("rm-emulator run scenarios/", ["scenarios/own.yaml"]),
        ("rm-emulator init my", ["my-trace"]),
        ("rm-emulator policies ca", ["capacity", "capped_sjf"]),
        ("rm-emulator predictors thr", ["three_sigma", "three_sigma_dag"]),
        ("rm-emulator placers w", ["worst_fit"]),
        ("rm-emulator profiles k", ["kubernetes"]),
        ("rm-emulator convert alibaba201", ["alibaba2017", "alibaba2018"]),
        ("rm-emulator replay out --label ", ["fair", "fifo"]),
        ("rm-emulator compare out --label fi", ["fifo"]),
    ],
)
@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_shell_completes(line: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    for name in ("scenarios/own.yaml", "some.yaml", "script.py"):
        (tmp_path / name).touch()
    for label in ("fifo", "fair"):
        (tmp_path / "out/runs" / label).mkdir(parents=True)
    assert completed(line, tmp_path) == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_set_up(shell: str) -> None:
    command = [sys.executable, "-m", "rm_emulator", "--show-completion", shell]
    tests = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **tests})
    assert "_RM_EMULATOR_COMPLETE" in done.stdout


def test_case_without_a_file_runs_the_example_that_ships(command: Callable[..., Any]) -> None:
    said = command("case")
    assert said.code == 0
    assert said.out.splitlines() == ["PASS drf-shares", "PASS drf-one-after-another", "PASS max-min-by-weights"]


@pytest.mark.slow
def test_an_interruption_while_the_program_is_still_being_imported_is_no_traceback(tmp_path: Path) -> None:
    # The interruption comes from within an import, so that no clock decides whether the test means anything.
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    paths = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"}
    command = [sys.executable, "-m", "rm_emulator", "run", HELLO]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=paths, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_the_list_of_policies_ends_with_the_three_to_try_first(command: Callable[..., Any]) -> None:
    said = command("policies")
    assert "\nThree to try first: fifo as the baseline; drf for queues with weights; gs with predictor" in said.out
    assert "Three to try" not in command("policies", "gs").out + command("placers").out
    json.loads(command("policies", "--json").out)
