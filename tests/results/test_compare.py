"""The comparison of two sides."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from rm_emulator.results.compare import CompareError, _sentence, _verdict, first_difference, main, sides

HEADER = '{"format":1,"policy":"%s"}\n'


@pytest.fixture(scope="module")
def logged(run, tmp_path_factory) -> Path:
    """The run with logs: the same first event, then another decision at 5 ms."""
    out_dir = tmp_path_factory.mktemp("compare") / "run"
    shutil.copytree(run[0], out_dir)
    start = '{"event":"Tick","at":5}\n'
    left = HEADER % "gs" + start + '{"decision":"Place","node":"a"}\n'
    right = HEADER % "fifo" + start + '{"decision":"Place","node":"b"}\n'
    (out_dir / "runs/slearn/1/events.jsonl").write_text(left)  # as earlier versions kept it
    with gzip.open(out_dir / "runs/three_sigma/1/events.jsonl.gz", "wt") as log:
        log.write(right)
    return out_dir


@pytest.fixture(scope="module")
def card(logged):
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([logged], [], json=True) == 0
    return json.loads(out.getvalue())


def test_the_first_label_is_compared_with_the_baseline(card):
    assert (card["left"]["label"], card["right"]["label"]) == ("three_sigma", "slearn")


def test_a_longer_completion_time_is_worse_by_what_it_is_longer():
    row = _verdict(189.0, 195.0, -1)
    assert row["verdict"] == "worse"
    assert row["change_pct"] == pytest.approx(3.1746, abs=1e-3)
    assert _sentence(row).plain == "▼ B is worse: 3.2 % higher"


def test_more_of_what_is_good_is_better():
    assert _sentence(_verdict(0.5, 0.6, 1)).plain == "▲ B is better: 20.0 % higher"


def test_a_change_from_nothing_has_no_percentage():
    assert _sentence(_verdict(0, 3, -1)).plain == "▼ B is worse: higher"


def test_the_direction_stands_in_the_heading_and_in_json(logged, card, capsys):
    main([logged], ["slearn", "three_sigma"])
    assert capsys.readouterr().out.startswith("B (three_sigma) relative to A (slearn)\n")
    assert card["direction"] == "right relative to left"


def test_the_first_event_at_which_the_logs_part(card):
    assert card["first_difference"] == {
        "line": 3,
        "same": 1,
        "at_ms": 5,
        "left": '{"decision":"Place","node":"b"}',
        "right": '{"decision":"Place","node":"a"}',
    }


def test_a_lower_completion_time_is_better(card):
    row = next(r for r in card["scores"] if r["name"] == "mean JCT")
    assert row["verdict"] == ("better" if row["right"] < row["left"] else "worse")


def test_a_higher_share_of_right_queues_is_better(card):
    row = next(r for r in card["scores"] if r["name"] == "jobs in the right queue")
    assert (row["verdict"], row["good"]) == ("better", "higher")


def test_winners_gain_and_losers_lose(card):
    assert all(job["ratio"] > 1 for job in card["winners"])
    assert all(job["ratio"] < 1 for job in card["losers"])


def test_the_ratio_is_that_of_the_two_times(card):
    job = card["winners"][0]
    assert job["ratio"] == pytest.approx(job["left_s"] / job["right_s"])


def test_the_bins_hold_all_pairs(card):
    assert sum(row["jobs"] for row in card["bins"].values()) == 400


def test_a_run_is_the_same_as_itself(logged, capsys):
    assert main([logged, logged], ["slearn"]) == 0
    text = capsys.readouterr().out
    assert "better" not in text
    assert "the logs agree line by line" in text


def test_the_card_is_printed_for_people(logged, capsys):
    main([logged], ["slearn", "three_sigma"])
    text = capsys.readouterr().out
    assert all(
        word in text for word in ("mean JCT", "won most", "lost most", "wide, large", "the logs part at 0.005 s")
    )


def test_an_unknown_label_is_refused_with_the_nearest(logged, capsys):
    assert main([logged], ["slern", "three_sigma"]) == 2
    assert "did you mean 'slearn'?" in capsys.readouterr().err


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    assert main([tmp_path], []) == 2
    assert "is a run directory" not in capsys.readouterr().out


def test_an_unknown_seed_is_refused(logged, capsys):
    assert main([logged], [], seed=9) == 2
    assert "seed 9 is not among those that both have: 1, 2" in capsys.readouterr().err


def test_one_label_against_the_baseline(logged):
    left, right = sides([logged], ["slearn"])
    assert (left.label, right.label) == ("three_sigma", "slearn")


def test_different_workloads_are_refused(fabricate, logged, tmp_path, capsys):
    from rm_emulator.results import summary

    fabricate.run_directory(tmp_path, labels={"slearn": 0.1}, seeds=(7,), jobs=5)
    summary.build(tmp_path, {})
    assert main([logged, tmp_path], []) == 2
    assert "no seed in common" in capsys.readouterr().err


def test_a_log_that_ends_early_parts_there(tmp_path):
    (tmp_path / "a").write_text('{}\n{"at":3}\n')
    (tmp_path / "b").write_text('{}\n{"at":3}\n{"x":{"at":9}}\n')
    found = first_difference(tmp_path / "a", tmp_path / "b")
    assert (found.line, found.same, found.at_ms, found.left) == (3, 1, 9, None)


def test_a_damaged_log_is_refused(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"{}\n" * 9999)[:40])
    with pytest.raises(CompareError, match="cannot be read to its end"):
        first_difference(tmp_path / "a.gz", tmp_path / "a.gz")
