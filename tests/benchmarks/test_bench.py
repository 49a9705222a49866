"""Benchmarks: the form of what they say. How fast things are is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.rows import Row, cannot_run
from benchmarks.run import _chosen, run
from rm_emulator.issues import InvalidInput
from schedulers.core.policy import policies

ROOT = Path(__file__).parents[2]
FIELDS = ["name", "value", "unit", "reference", "ratio", "target", "met", "note"]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    return run(tiny=True)


@pytest.mark.bench
def test_rows_have_the_promised_fields(rows: list[dict[str, object]]) -> None:
    assert all(list(row) == FIELDS for row in rows)


@pytest.mark.bench
def test_all_promised_rows_are_there(rows: list[dict[str, object]]) -> None:
    names = {row["name"] for row in rows}
    assert names >= {"tpch_executor_replay", "heartbeat_150_nodes", "memory_per_million_tasks", "fan_in_cells"}
    assert names >= {"large_run_cpu_s", "large_run_memory"}
    assert names >= {f"decision_p99/{entry.name}" for entry in policies}
    assert names >= {f"queues_{what}/{entry.name}" for entry in policies for what in ("p50", "p99", "idle")}
    assert names >= {f"build_schedule/{what}" for what in ("10k_stages", "100k_tasks")}
    assert names >= {"heft_200x50", "deft_decision", "lachesis_workload/rank_up", "lachesis_workload/planned"}
    assert names >= {f"queue_limits_{what}/fifo" for what in ("p50", "p99", "idle")}
    assert names >= {"decision_mean/decima", "decision_p98/decima"}
    assert names >= {"bundle_examinations", "build_schedule_10000"}
    assert names >= {f"command_cpu_s/{command}" for command in ("check", "policies", "schema", "explain")}


@pytest.mark.bench
def test_values_are_positive_numbers(rows: list[dict[str, object]]) -> None:
    assert [row for row in rows if not (isinstance(row["value"], float) and row["value"] > 0)] == []


@pytest.mark.bench
def test_json_is_one_document(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "run", lambda *_, **__: [Row(name="x", value=1.0, unit="s").plain()])
    program.main(["--json"])
    assert json.loads(capsys.readouterr().out)[0]["name"] == "x"


def test_a_target_is_of_the_ratio_where_there_is_one() -> None:
    assert Row(name="x", value=9, unit="s", reference=100, ratio=0.09, target=">= 0.06").met is True
    assert Row(name="x", value=9, unit="s", reference=100, ratio=0.05, target=">= 0.06").met is False


def test_a_target_is_of_the_value_where_there_is_no_ratio() -> None:
    assert Row(name="x", value=301, unit="MB", target="<= 300").met is False
    assert Row(name="x", value=300, unit="MB", target="<= 300").met is True


def test_without_target_nothing_is_met_or_missed() -> None:
    assert Row(name="x", value=1, unit="us").met is None


def test_targets_beside_a_recorded_reference_are_of_the_value() -> None:
    rows = run(["heft_200x50", "deft_decision"], tiny=True)
    assert [(row["name"], row["ratio"], row["unit"], row["target"]) for row in rows] == [
        ("heft_200x50", None, "ms", "<= 20"),
        ("deft_decision", None, "ms", "<= 1"),
    ]


def test_an_unknown_benchmark_is_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"no benchmark or group 'engines'.*did you mean 'engine'"):
        run(["engines"])


@pytest.mark.parametrize(
    "name",
    [
        "tpch_executor_replay",
        "yarn_heartbeats_22k",
        "decision_p99/fifo",
        "queues_p99/drf",
        "build_schedule/10k_stages",
        "build_schedule_10000",
        "heft_200x50",
    ],
)
def test_a_benchmark_is_found_by_the_name_of_a_row(name: str) -> None:
    assert len(_chosen([name])) == 1


@pytest.mark.drawn(of=4)
def test_the_command_prints_its_rows_on_standard_output_and_progress_beside() -> None:
    command = [sys.executable, "-m", "rm_emulator", "bench", "cli_help_ms", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [row["name"] for row in json.loads(done.stdout)] == ["cli_help_ms"]
    assert "cli_help_ms ..." in done.stderr


def test_a_group_of_which_nothing_can_run_here_ends_with_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [cannot_run("x", "install the extra k8s").plain()]
    monkeypatch.setattr(program, "run", lambda *_, **__: rows)
    with pytest.raises(SystemExit) as ended:
        program.main(["kubernetes"])
    assert ended.value.code == 2
    assert "install the extra k8s" in capsys.readouterr().out
    rows.append(Row(name="y", value=1.0, unit="s").plain())
    program.main(["kubernetes"])
