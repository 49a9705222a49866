"""What of a rule's gain comes from what: the rows, and the runs where the measured profiles are there."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from rm_emulator import api
from studies import learned, parts

DATA = Path(__file__).parents[2] / "../shared/data"
needs_profiles = pytest.mark.skipif(
    not (DATA / learned.PROFILES).exists(), reason=f"needs the measured profiles of Decima's release in {DATA}"
)


def test_differences_are_paired_with_the_first_rule() -> None:
    assert parts.rows({"one": [1.0, 2.0, 3.0], "other": [2.0, 3.0, 4.0]}) == [
        ["one", "2.0", "", ""],
        ["other", "3.0", "1.0 [1.0, 1.0]", "0 of 3"],
    ]


@pytest.mark.slow
@needs_profiles
def test_a_rule_has_the_engines_mean() -> None:
    (setting,) = parts.settings("batch", DATA, 1)
    of = next(each for each in learned.SETTINGS if each.name == "batch")
    jobs = api.play(learned.scenario(of, "curves", learned.compared(of)["curves"], 2, DATA), seed=1000).jobs
    (mean,) = parts.means(parts.PARTS["batch"]["curves"], [setting])
    assert mean == pytest.approx(fmean(jobs["finish_ms"] - jobs["submit_ms"]) / 1000)


@pytest.mark.slow
@needs_profiles
def test_free_moves_and_warm_starts_both_save_time() -> None:
    jcts = parts.budget(parts.settings("batch", DATA, 2))
    means = {label: fmean(ran) for label, ran in jcts.items()}
    assert means["both"] < min(means["moves free"], means["fresh starts as first ones"]) < means["as measured"]
