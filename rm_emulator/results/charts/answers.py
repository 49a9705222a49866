"""The answer of `simulate` that was drawn into the report: when jobs end, and who ends later."""

from __future__ import annotations

from typing import Final

from rm_emulator.results.answers import kept
from rm_emulator.results.chart import Cells, Chart, Section, register

ANSWER: Final = Section(
    "answer",
    27,
    "When will it run?",
    "When will it run?",
    "The run played on from a moment many times, each time with other run times for all tasks that have not ended.",
)


@register(ANSWER, order=10, wide=True, source="rm-emulator")
def ends(cells: Cells) -> Chart | None:
    """A fan of ends by job: from the end at 10 % of the draws, over the median, to the end at 90 %."""
    return kept(cells.folder, "ends")


@register(ANSWER, order=20, wide=True, source="rm-emulator")
def delays(cells: Cells) -> Chart | None:
    """Jobs that end later, and jobs that end sooner, because of the new job or the change in the question."""
    return kept(cells.folder, "delays")
