"""What DagJobs are told of their end, and how past answers are judged."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.told import AGAIN_S, Listed, ListedStatus, Told, Word, is_news
from operators.client import stamp
from schedulers.objects.dagjob import ExpectedStatus, ExpectedTimes
from schedulers.objects.meta import Meta

NOW_MS = 1_800_000_000_000


def times(*seconds: int | None) -> ExpectedTimes:
    """Quantiles so many seconds from now on."""
    return ExpectedTimes(*(None if s is None else stamp(NOW_MS + 1000 * s) for s in seconds))


def ends(p10: int | None, p50: int | None, p90: int | None, *, start: ExpectedTimes | None = None) -> ExpectedStatus:
    return ExpectedStatus(known=True, asOf=stamp(NOW_MS), start=start, finish=times(p10, p50, p90))


UNKNOWN = ExpectedStatus(known=False, asOf=stamp(NOW_MS))


def listed(
    name: str = "a",
    phase: str = "Running",
    completed: str | None = None,
    expected: ExpectedStatus | None = None,
) -> Listed:
    meta = Meta(name=name, namespace="n", uid=f"{name}-uid-long")
    return Listed(meta, ListedStatus(phase, completed, expected))


def done(name: str = "a", at_s: int = 0, phase: str = "Succeeded") -> Listed:
    return listed(name, phase=phase, completed=stamp(NOW_MS + 1000 * at_s))


def write_all(told: Told, now_s: float) -> list[Word]:
    words = []
    while (word := told.due(now_s)) is not None:
        told.wrote(word, now_s)
        words.append(word)
    return words


# -- news ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "news"),
    [
        (None, ends(50, 100, 150), True),
        (ends(50, 100, 150), None, True),
        (None, None, False),
        (ends(50, 100, 150), ends(50, 100, 150), False),
        (ends(50, 100, 150), ends(50, 109, 150), False),
        (ends(50, 100, 150), ends(50, 112, 150), True),
        (ends(50, 100, 150), ends(50, 100, 161), True),
        (ends(50, 100, 150), ends(39, 100, 150), True),
        (ends(50, 1000, 1500), ends(50, 1090, 1500), False),
        (ends(50, 100, None), ends(50, 100, 150), True),
        (ends(50, 100, 150), UNKNOWN, True),
        (UNKNOWN, UNKNOWN, False),
        (ends(50, 100, 150, start=times(5, 9, 12)), ends(50, 100, 150), True),
        (ends(50, 100, 150, start=times(10, 20, 30)), ends(50, 100, 150, start=times(10, 25, 30)), True),
        (ends(50, 100, 150, start=times(10, 20, 30)), ends(50, 100, 150, start=times(10, 21, 30)), False),
    ],
)
def test_an_answer_is_news_by_more_than_a_tenth_of_the_time_left(
    old: ExpectedStatus | None, new: ExpectedStatus | None, news: bool
) -> None:
    assert is_news(old, new) == news


def test_a_later_look_at_the_same_times_is_no_news() -> None:
    later = msgspec.structs.replace(ends(50, 100, 150), asOf=stamp(NOW_MS + 20_000))
    assert not is_news(ends(50, 100, 150), later)


def test_an_unknown_end_is_written_without_a_time() -> None:
    assert msgspec.to_builtins(UNKNOWN) == {"known": False, "asOf": stamp(NOW_MS)}


# -- writes -------------------------------------------------------------------------------------


def test_a_job_is_told_again_after_ten_seconds_at_the_soonest() -> None:
    told = Told()
    told.hear({"n/a.a-uid-lo": ends(50, 100, 150)}, [listed()])
    (first,) = write_all(told, 0.0)
    assert first.expected == ends(50, 100, 150)
    told.hear({"n/a.a-uid-lo": ends(50, 300, 450)}, [listed()])
    assert told.due(AGAIN_S - 0.1) is None
    (second,) = write_all(told, AGAIN_S)
    assert second.expected == ends(50, 300, 450)


def test_the_job_told_longest_ago_goes_first() -> None:
    told, jobs = Told(), [listed("a"), listed("b")]
    told.hear({"n/b.b-uid-lo": ends(1, 2, 3)}, jobs)
    write_all(told, 0.0)
    told.hear({"n/a.a-uid-lo": ends(9, 9, 9), "n/b.b-uid-lo": ends(50, 60, 70)}, jobs)
    assert [word.meta.name for word in write_all(told, 20.0)] == ["a", "b"]


def test_a_job_that_is_over_has_no_answer_any_more() -> None:
    told = Told()
    told.hear({}, [done()])
    assert told.due(0.0) is None
    told.hear({}, [listed("b", phase="Failed", expected=ends(1, 2, 3))])
    (word,) = write_all(told, 0.0)
    assert (word.meta.name, word.expected) == ("b", None)


def test_the_answer_of_a_job_that_is_over_goes_at_once() -> None:
    told = Told()
    told.hear({"n/a.a-uid-lo": ends(50, 100, 150)}, [listed()])
    write_all(told, 0.0)
    told.hear({}, [done()])
    assert [word.expected for word in write_all(told, 1.0)] == [None]


def test_an_answer_of_the_process_before_is_not_written_again() -> None:
    told = Told()
    told.hear({"n/a.a-uid-lo": ends(50, 101, 150)}, [listed(expected=ends(50, 100, 150))])
    assert told.due(0.0) is None


def test_a_namesake_is_another_job() -> None:
    told = Told()
    told.hear({"n/a.a-uid-lo": ends(50, 100, 150)}, [listed()])
    write_all(told, 0.0)
    namesake = Listed(Meta(name="a", namespace="n", uid="second-uid"))
    told.hear({"n/a.a-uid-lo": ends(50, 100, 150)}, [namesake])
    assert told.due(100.0) is None


def test_a_word_that_is_refused_is_not_tried_for_ever() -> None:
    told = Told()
    told.hear({"n/a.a-uid-lo": ends(50, 100, 150)}, [listed()])
    word = told.due(0.0)
    assert word is not None
    told.drop(word)
    assert told.due(100.0) is None
    told.hear({"n/a.a-uid-lo": ends(50, 100, 150)}, [listed()])
    assert told.due(100.0) == word


seconds = st.integers(1, 10_000)
answers = st.one_of(
    st.just(UNKNOWN),
    st.tuples(seconds, seconds, st.one_of(seconds, st.none())).map(
        lambda t: ends(min(t[0], t[1]), max(t[0], t[1]), None if t[2] is None else max(*t[:2], t[2]))
    ),
)


@given(st.lists(st.tuples(st.floats(0.1, 30.0), st.dictionaries(st.sampled_from("abc"), answers)), max_size=12))
def test_statuses_follow_the_answers_and_no_job_is_told_twice_in_ten_seconds(
    rounds: list[tuple[float, dict[str, ExpectedStatus]]],
) -> None:
    told, jobs, now_s = Told(), [listed(name) for name in "abc"], 0.0
    status: dict[str, ExpectedStatus | None] = {}
    at_s: dict[str, float] = {}
    newest: dict[str, ExpectedStatus] = {}
    for pause_s, given_ in rounds:
        now_s += pause_s
        newest |= given_
        told.hear({f"n/{name}.{name}-uid-lo": answer for name, answer in given_.items()}, jobs)
        for word in write_all(told, now_s):
            name = word.meta.name
            assert now_s - at_s.get(name, -math.inf) >= AGAIN_S
            status[name], at_s[name] = word.expected, now_s
    write_all_at = now_s + AGAIN_S
    status |= {word.meta.name: word.expected for word in write_all(told, write_all_at)}
    for name, answer in newest.items():
        assert not is_news(status.get(name), answer)


# -- quality ------------------------------------------------------------------------------------


def judged(*answered: tuple[ExpectedStatus, Listed]) -> tuple[float, float]:
    told = Told()
    names = [each.metadata.name for _, each in answered]
    told.hear(
        {f"n/{name}.{name}-uid-lo": answer for name, (answer, _) in zip(names, answered, strict=True)},
        map(listed, names),
    )
    write_all(told, 0.0)
    for _ in range(2):
        told.hear({}, [end for _, end in answered])
    return told.quality()


def test_an_interval_is_judged_by_the_end_that_came_once() -> None:
    assert judged((ends(50, 100, 150), done(at_s=120))) == (1.0, 20.0)
    assert judged((ends(50, 100, 150), done(at_s=160))) == (0.0, 60.0)
    assert judged((ends(50, 100, 150), done(at_s=30)), (ends(50, 100, 150), done("b", at_s=110))) == (0.5, 40.0)


def test_an_interval_without_an_upper_end_holds_every_later_end() -> None:
    assert judged((ends(50, 100, None), done(at_s=5000))) == (1.0, 4900.0)


@pytest.mark.parametrize("answered", [(ends(50, 100, 150), done(at_s=120, phase="Failed")), (UNKNOWN, done(at_s=120))])
def test_jobs_that_failed_or_had_no_answer_are_not_judged(answered: tuple[ExpectedStatus, Listed]) -> None:
    assert all(map(math.isnan, judged(answered)))


def test_the_first_answer_is_judged() -> None:
    told = Told()
    for at_s, answer in ((0.0, ends(50, 100, 150)), (50.0, ends(118, 119, 121))):
        told.hear({"n/a.a-uid-lo": answer}, [listed()])
        write_all(told, at_s)
    told.hear({}, [done(at_s=120)])
    assert told.quality() == (1.0, 20.0)
