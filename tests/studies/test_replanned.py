"""Re-planning by its budget: which policies are held against each other, and the rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from studies.replanned import KNOWN, main, policies, rows


def test_budgets_and_candidates_are_policies_of_their_own() -> None:
    found = policies(KNOWN["batch"], "50", "30,100")
    by_budget = ["replan, 50 ms", "curves_learned", "replan from curves_learned, 50 ms"]
    assert list(found) == ["capped_sjf", "curves", *by_budget, "replan, 30 candidates", "replan, 100 candidates"]
    assert found["replan from curves_learned, 50 ms"]["learned"]
    assert found["replan, 50 ms"]["budget_ms"] == 50
    assert found["replan, 30 candidates"]["budget_ms"] is None
    assert found["replan, 30 candidates"]["predictor"] == {"kind": "oracle"}


def test_where_jobs_recur_all_policies_learn_from_history() -> None:
    learned = {policy["predictor"]["kind"] for policy in policies(KNOWN["recurring"], "50", "").values()}
    assert learned == {"three_sigma_dag"}


def test_differences_are_paired_with_capped_sjf() -> None:
    found = rows({"capped_sjf": {1: 10.0, 2: 20.0}, "replan": {1: 9.0, 2: 18.0}})
    assert found == [["capped_sjf", "2", "15.0", ""], ["replan", "2", "13.5", "-10.0 [-10.0, -10.0]"]]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="there is no setting 'bach' \\(settings: batch, stream, recurring"):
        main(data=Path(), setting="bach")
