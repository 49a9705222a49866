"""One closed set of reasons: precedence, sentences."""

from __future__ import annotations

import pytest

from schedulers.core.reasons import Reason, sentence


def test_precedence_is_the_order_of_the_set() -> None:
    assert [reason.precedence for reason in Reason] == list(range(len(Reason)))


def test_what_can_never_be_comes_before_what_time_will_solve() -> None:
    assert Reason.TOO_LARGE.precedence < Reason.WAITS_FOR_STAGE.precedence < Reason.NO_ROOM.precedence


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_makes_a_sentence_even_without_its_numbers(reason: Reason) -> None:
    said = sentence(reason, {})
    assert said
    assert "{" not in said


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_template_for_the_documentation(reason: Reason) -> None:
    assert len(reason.template.split()) > 3


def test_a_sentence_as_in_the_design() -> None:
    said = sentence(Reason.WAITS_FOR_STAGE, {"parent": "map", "left": 12, "tasks": 40, "until": ""})
    assert said == "waits for stage map (12 of 40 tasks left)"


def test_a_limit_names_queue_resource_share_and_limit() -> None:
    data = {"queue": "prod.etl", "resource": "memory", "held": "41Gi", "share": "41%", "limit": "42Gi"}
    said = sentence(Reason.QUEUE_AT_LIMIT, data | {"asked": "4Gi", "stage": "map", "never": ""})
    assert said == (
        "queue prod.etl holds 41Gi of memory (41% of the cluster) and may hold 42Gi: "
        "4Gi more for stage map would be over its limit"
    )


def test_codes_are_fit_for_metrics_and_conditions() -> None:
    assert all(reason.value == reason.name.lower() for reason in Reason)
