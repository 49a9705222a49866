"""summary.json: the fields it promises, and what is refused."""

from __future__ import annotations

import json
import shutil

import msgspec
import pytest

from rm_emulator.results import summary
from rm_emulator.results.expect import ExpectError

RUN_FIELDS = {
    *("policy", "predictor", "label", "seed", "jobs", "tasks", "failed_tasks", "jct_s", "wait_s", "makespan_s"),
    *("load", "held_load", "utilisation", "jain"),
    *("queue_placement_correct", "prediction_error_pct", "queues", "decisions"),
    *("locality", "decision_us", "wall_s", "sim_s", "tasks_per_s", "peak_rss_mb", "log_sha256"),
    *("fairness", "new_queue"),
}


@pytest.fixture
def copied(run, tmp_path):
    out_dir, scenario, _ = run
    shutil.copytree(out_dir, tmp_path / "run")
    return tmp_path / "run", scenario


def test_the_file_holds_what_was_returned(run):
    out_dir, _, built = run
    assert summary.read_summary(out_dir) == built


def test_every_run_has_every_field(run):
    assert all(set(entry) >= RUN_FIELDS for entry in json.loads((run[0] / "summary.json").read_text())["runs"])


def test_every_queue_has_its_times_of_want_and_shares(run):
    fields = {"starved_s", "hungry_s", "satisfied_s", "share_mean", "fair_share_mean"}
    for entry in json.loads((run[0] / "summary.json").read_text())["runs"]:
        assert set(entry["fairness"]["queues"]) == {"adhoc", "prod.etl"}
        assert all(set(queue) == fields for queue in entry["fairness"]["queues"].values())


def test_runs_are_in_the_order_of_the_scenario(run):
    order = [(entry.label, entry.seed) for entry in run[2].runs]
    assert order == [("slearn", 1), ("slearn", 2), ("three_sigma", 1), ("three_sigma", 2)]


def test_every_label_but_the_baseline_is_compared(run):
    assert [(c.label, c.baseline) for c in run[2].comparisons] == [("slearn", "three_sigma")]


def test_speedups_have_a_value_and_an_interval(run):
    found = run[2].comparisons[0].speedup
    assert found.__struct_fields__ == ("ratio_of_means", "mean_of_ratios", "p50_of_ratios")
    assert all(s.ci95[0] <= s.value <= s.ci95[1] for s in msgspec.structs.astuple(found))


def test_the_ratio_of_means_is_that_of_the_runs(run):
    means = {(r.label, r.seed): r.jct_s.mean for r in run[2].runs}
    expected = sum(means["three_sigma", seed] / means["slearn", seed] for seed in (1, 2)) / 2
    assert run[2].comparisons[0].speedup.ratio_of_means.value == pytest.approx(expected)


def test_expectations_carry_their_figures(run):
    mean = sum(r.jct_s.mean for r in run[2].runs[:2]) / 2
    assert run[2].expect[0].left == pytest.approx(mean)


def test_building_again_gives_the_same_bytes(copied):
    out_dir, scenario = copied
    before = (out_dir / "summary.json").read_bytes()
    summary.build(out_dir, scenario)
    assert (out_dir / "summary.json").read_bytes() == before


def test_an_unknown_load_comes_from_the_engine_when_it_knows(copied):
    out_dir, scenario = copied
    path = out_dir / "runs/slearn/1/cell.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "load": 1.05}))
    assert summary.build(out_dir, scenario).runs[0].load == 1.05


def test_a_missing_cell_is_named(copied):
    out_dir, scenario = copied
    shutil.rmtree(out_dir / "runs/three_sigma/2")
    with pytest.raises(summary.MissingCell, match=r"three_sigma/2/jobs\.parquet: not there"):
        summary.build(out_dir, scenario)


def test_a_truncated_table_is_named(copied):
    out_dir, scenario = copied
    path = out_dir / "runs/slearn/1/tasks.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(summary.MissingCell, match=r"tasks\.parquet: not a readable Parquet file"):
        summary.build(out_dir, scenario)


def test_an_unknown_baseline_is_refused(copied):
    out_dir, scenario = copied
    wrong = {**scenario, "spec": {**scenario["spec"], "baseline": "oracle"}}
    with pytest.raises(summary.MissingCell, match="baseline 'oracle' is not a label"):
        summary.build(out_dir, wrong)


def test_a_wrong_expectation_leaves_the_old_summary(copied):
    out_dir, scenario = copied
    before = (out_dir / "summary.json").read_bytes()
    wrong = {**scenario, "spec": {**scenario["spec"], "expect": ["slern.jct_s.mean < 1"]}}
    with pytest.raises(ExpectError):
        summary.build(out_dir, wrong)
    assert (out_dir / "summary.json").read_bytes() == before


def test_without_a_scenario_the_cells_on_disk_are_used(copied):
    found = summary.build(copied[0], {})
    assert [(entry.label, entry.seed) for entry in found.runs][-1] == ("three_sigma", 2)


def test_queue_weights_are_found_where_the_scenario_lists_them():
    assert summary.queue_weights({"cluster": {"queues": [{"name": "a", "weight": 2}, {"name": "b"}]}}) == {
        "a": 2.0,
        "b": 1.0,
    }
