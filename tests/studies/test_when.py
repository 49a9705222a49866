"""The tables of studies/when.py."""

from __future__ import annotations

import polars as pl

from studies.when import HEAD, rows


def test_a_table_has_the_loss_over_tolds_with_an_interval_over_moments() -> None:
    names = ("seed", "at_s", "job", "came_s", "answerer", "p10_s", "p50_s", "p90_s")
    answers = []
    for moment in range(10):
        for job, came in (("a", 100.0), ("b", 200.0)):
            asked = (1, float(moment), job, came)
            answers.append((*asked, "told", came, came, came + 30))  # 0.1 * 30 / 3 = 1 s
            # 10 late or 90 early at all quantiles: 5 or 45 s, every other moment.
            off = 10.0 if moment % 2 else -90.0
            answers.append((*asked, "simulate", came + off, came + off, came + off))
    found = rows(pl.DataFrame(answers, names, orient="row"))
    cells = {(row[0], row[1]): dict(zip(HEAD, row, strict=True)) for row in found}
    own, told = cells["all", "simulate"], cells["all", "told"]
    assert (told["pinball loss, s"], told["over told's"], told["80 % interval holds, %"]) == (
        "1",
        "1.00",
        "100 [100, 100]",
    )
    assert own["pinball loss, s"] == "25"
    assert own["over told's"].startswith("25.00 [")
    low, high = (float(part) for part in own["over told's"].partition("[")[2].rstrip("]").split(","))
    assert 5 < low < 25 < high < 45
    assert own["median error, %"] == "28"  # of 5, 10, 45 and 90 %
