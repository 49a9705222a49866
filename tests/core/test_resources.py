"""Quantities as Kubernetes writes them, rounded so that nothing is over-committed."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.core.errors import InvalidQuantity
from schedulers.core.resources import Resources, parse_quantity, show_steps, to_steps
from schedulers.core.vectors import dominant_share, fits


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        (4, 4),
        (0.1, Fraction(1, 10)),
        ("500m", Fraction(1, 2)),
        ("1.5Gi", 3 * 2**29),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("2Ei", 2 * 2**60),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+3", 3),
        ("-0", 0),
        ("100u", Fraction(1, 10_000)),
        ("100n", Fraction(1, 10**7)),
        ("1k", 1000),
        ("1Ki", 1024),
        ("12e-1", Fraction(12, 10)),
    ],
)
def test_quantity_that_kubernetes_takes(text: str | int | float, value: Fraction | int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 4",
        "4 ",
        "1K",
        "1gi",
        "1mi",
        "0x10",
        "1e",
        "e3",
        "1e3Gi",
        "1.2.3",
        "--1",
        "nan",
        "inf",
        "1_000",
        "٣",
        "1GiB",
    ],
)
def test_quantity_that_kubernetes_refuses(text: str) -> None:
    with pytest.raises(InvalidQuantity, match="not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, None, [], float("nan"), float("inf")])
def test_quantity_that_is_no_number(value: object) -> None:
    with pytest.raises(InvalidQuantity, match="not a quantity"):
        parse_quantity(value)


def test_quantity_below_zero() -> None:
    with pytest.raises(InvalidQuantity, match="negative quantity: '-1'"):
        parse_quantity("-1")


@pytest.mark.parametrize(
    "value", ["1e31", "3000E", 2**80, -(2**80), pytest.param(10**5000, id="5,001 digits"), 1e22, f"{2**80}"]
)
def test_quantity_out_of_range(value: str | float) -> None:
    with pytest.raises(InvalidQuantity, match="out of range"):
        parse_quantity(value)


@pytest.mark.parametrize("text", ["9" * 5000, "0." + "0" * 5000 + "1", "x" * 5000], ids=["digits", "zeros", "letters"])
def test_a_quantity_of_thousands_of_characters_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InvalidQuantity, match=r"too long: .* has 50.. characters") as refused:
        parse_quantity(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("name", "largest", "larger"),
    [("cpu", "1G", "1001G"), ("memory", "900000Pi", "1024Ei"), ("pods", "1P", "1001T")],
)
def test_steps_beyond_what_can_be_added_up_are_refused(name: str, largest: str, larger: str) -> None:
    assert 9000 * to_steps(name, largest, round_up=True) < 2**63
    with pytest.raises(InvalidQuantity, match=f"out of range: '{larger}' of {name}"):
        to_steps(name, larger, round_up=True)


def test_demands_round_up() -> None:
    assert Resources().demand({"cpu": "1.0001", "memory": "1Ki"}) == (1001, 1)


def test_capacities_round_down() -> None:
    assert Resources().capacity({"cpu": "1.0009", "memory": "1.9Mi"}) == (1000, 1)


def test_resources_that_are_not_mentioned_are_zero() -> None:
    assert Resources(("cpu", "memory", "gpu")).demand({"gpu": 1}) == (0, 0, 1000)


def test_other_resources_count_whole_pieces() -> None:
    assert Resources(("pods",)).demand({"pods": "1500m"}) == (2,)


def test_unknown_resource_is_named_with_those_there_are() -> None:
    with pytest.raises(InvalidQuantity, match=r"unknown resource 'gpus' \(this cluster has cpu, memory\)"):
        Resources().demand({"gpus": 1})


def test_a_resource_named_twice_is_refused() -> None:
    with pytest.raises(InvalidQuantity, match="named twice"):
        Resources(("cpu", "cpu"))


def test_new_resources_are_appended_in_sorted_order() -> None:
    assert Resources(("cpu", "memory")).extended({"pods", "cpu", "gpu"}).names == ("cpu", "memory", "gpu", "pods")


@pytest.mark.parametrize(
    ("name", "steps", "text"),
    [
        ("cpu", 500, "500m"),
        ("cpu", 4000, "4"),
        ("memory", 1536, "1536Mi"),
        ("memory", 4096, "4Gi"),
        ("memory", 2**20, "1Ti"),
        ("pods", 3, "3"),
        ("memory", 0, "0"),
    ],
)
def test_shown_as_the_shortest_quantity(name: str, steps: int, text: str) -> None:
    assert show_steps(name, steps) == text


@given(st.sampled_from(["cpu", "memory", "gpu", "pods", "disk"]), st.integers(0, 10**15), st.booleans())
def test_what_is_shown_reads_back_exactly(name: str, steps: int, up: bool) -> None:
    assert to_steps(name, show_steps(name, steps), round_up=up) == steps


@given(st.sampled_from(["cpu", "memory", "pods"]), st.fractions(0, 10**9), st.sampled_from(["", "m", "Ki", "M", "n"]))
def test_a_demand_fits_where_the_same_capacity_is_and_wastes_less_than_a_step(
    name: str, number: Fraction, suffix: str
) -> None:
    text = f"{float(number):.6f}{suffix}"
    up, down = to_steps(name, text, round_up=True), to_steps(name, text, round_up=False)
    assert 0 <= up - down <= 1


def test_fits_needs_every_component() -> None:
    assert fits((1, 2), (1, 2))
    assert not fits((1, 3), (5, 2))


def test_dominant_share_is_the_largest_fraction() -> None:
    # DRF (NSDI 2011), section 4.1: user A's task <1 CPU, 4 GB> on <9 CPUs, 18 GB>.
    assert dominant_share((1, 4), (9, 18)) == 4 / 18


def test_a_resource_that_the_cluster_lacks_has_no_share() -> None:
    assert dominant_share((5, 1), (0, 2)) == 0.5
    assert dominant_share((5,), (0,)) == 0.0
