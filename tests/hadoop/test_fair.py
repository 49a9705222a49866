"""The FairScheduler's allocation file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.hadoop.fair import Amount, FairConfig, FairQueue, parse_amount, read_allocations
from rm_emulator.issues import Issues, TraceError


def read(tmp_path: Path, inside: str) -> FairConfig:
    path = tmp_path / "fair-scheduler.xml"
    path.write_text(f"<allocations>\n{inside}\n</allocations>")
    issues = Issues()
    found = read_allocations(path, issues)
    issues.check()
    return found


def queue(config: FairConfig, path: str) -> FairQueue:
    return next(q for q in config.queues if q.path == path)


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, "") == FairConfig()


def test_queues_below_the_root(tmp_path: Path) -> None:
    config = read(tmp_path, '<queue name="a"><weight>2.5</weight></queue><pool name="b"/>')
    assert [q.path for q in config.queues] == ["root", "root.a", "root.b"]
    assert queue(config, "root").children == ("root.a", "root.b")
    assert (queue(config, "root.a").weight, queue(config, "root.b").weight) == (2.5, 1)


def test_the_root_may_be_named(tmp_path: Path) -> None:
    config = read(tmp_path, '<queue name="root"><weight>1</weight><queue name="a"><queue name="x"/></queue></queue>')
    assert [q.path for q in config.queues] == ["root", "root.a", "root.a.x"]


def test_settings_of_a_queue(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '<queue name="a"><minResources>2048 mb, 2 vcores</minResources><maxResources>50%</maxResources>'
        "<maxRunningApps>7</maxRunningApps><maxAMShare>-1.0</maxAMShare><schedulingPolicy>fifo</schedulingPolicy>"
        "<minSharePreemptionTimeout>5</minSharePreemptionTimeout></queue>",
    )
    assert queue(config, "root.a") == FairQueue(
        path="root.a",
        minimum=Amount(mb=2048, vcores=2),
        maximum=Amount(mb_percent=50, vcores_percent=50),
        max_running_apps=7,
        max_am_share=-1,
        ordering="fifo",
        min_share_preemption_timeout_ms=5000,
    )


def test_defaults_of_all_queues(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
        "<queueMaxAMShareDefault>0.3</queueMaxAMShareDefault><queueMaxAppsDefault>4</queueMaxAppsDefault>"
        "<defaultFairSharePreemptionTimeout>60</defaultFairSharePreemptionTimeout>",
    )
    assert (config.default_ordering, config.default_max_am_share, config.default_max_running_apps) == ("drf", 0.3, 4)
    assert config.default_fair_share_preemption_timeout_ms == 60_000


def test_what_is_passed_over_is_named(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '<user name="u"><maxRunningApps>3</maxRunningApps></user>'
        '<queue name="a"><maxChildResources>10%</maxChildResources><aclSubmitApps>*</aclSubmitApps></queue>',
    )
    assert config.not_modelled == ("user", "maxChildResources")


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ('<queue name="a"/>\n<queue name="a"/>', ":3: <queue>: queue 'root.a' is declared twice (first in line 2)"),
        ('<queue name="a.b"/>', "name 'a.b' (expected"),
        ("<queue/>", "no name (expected"),
        ("<weigth>1</weigth>", "<weigth>: unknown element"),
        ('<queue name="a"><weigth>1</weigth></queue>', "did you mean 'weight'?"),
        ('<queue name="a"><weight>x</weight></queue>', "'x' is not accepted (expected a number from 0"),
        ('<queue name="a"><schedulingPolicy>fare</schedulingPolicy></queue>', "did you mean 'fair'?"),
        ('<queue name="a"><schedulingPolicy>fifo</schedulingPolicy><queue name="b"/></queue>', "which is for leaves"),
        ("<defaultQueueSchedulingPolicy>fifo</defaultQueueSchedulingPolicy>", "cannot be the default"),
        ('<queue name="a"><maxResources>10 gb</maxResources></queue>', "'10 gb' is not an amount of resources"),
    ],
)
def test_mistakes(tmp_path: Path, inside: str, message: str) -> None:
    with pytest.raises(TraceError) as raised:
        read(tmp_path, inside)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("10240 mb, 10 vcores", Amount(mb=10240, vcores=10)),
        ("10 vcores 10240mb", Amount(mb=10240, vcores=10)),
        ("40%", Amount(mb_percent=40, vcores_percent=40)),
        ("50% memory, 25.5% cpu", Amount(mb_percent=50, vcores_percent=25.5)),
        ("memory-mb=4096, vcores=3", Amount(mb=4096, vcores=3)),
        ("vcores=3", Amount(vcores=3)),
        ("memory-mb=50%, vcores=10%", Amount(mb_percent=50, vcores_percent=10)),
    ],
)
def test_amounts(text: str, amount: Amount) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize(
    "text", ["", "10", "10240 mb", "-5 mb, 1 vcores", "10 mb, 5 mb", "gpu=1", "vcores=1.5", "a=b=c"]
)
def test_what_is_not_an_amount(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount"):
        parse_amount(text)


def test_shares_of_the_cluster_are_cut_off() -> None:
    assert Amount(mb_percent=33.3, vcores=7).of((10000, 10), (0, 0)) == (3330, 7)


def test_what_is_not_limited_takes_the_other_value() -> None:
    assert Amount(vcores=3).of((1, 1), (99, 99)) == (99, 3)
