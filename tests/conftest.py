"""Settings of all tests: hypothesis draws the same examples everywhere, and no test leaves plug-ins behind.

How long each test took is kept in `out/durations.json`, and told at the end of a long run.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from rm_emulator.results.chart import charts
from rm_emulator.workload.formats import FORMATS
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors
from schedulers.core.registry import Registry
from schedulers.learned.model_store import _MODELS
from tests.commit import Commit
from tests.examples import CI, NIGHTLY
from tests.groups import rank, scope
from tests.packaged import Packaged

for profile, drawn in ((CI, 15), (NIGHTLY, 100)):
    settings.register_profile(
        profile,
        max_examples=drawn,
        derandomize=True,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        database=None,
    )
settings.load_profile(CI)


@pytest.fixture(autouse=True)
def _registries_as_before() -> Iterator[None]:
    """What a test registers (plug-ins, deliberately broken policies) is gone for the next one."""
    with _nothing_registered():
        yield


@pytest.fixture(autouse=True, scope="module")
def _registries_as_before_the_file() -> Iterator[None]:
    """What the fixtures of a file register is gone for the next file."""
    with _nothing_registered():
        yield


@contextmanager
def _nothing_registered() -> Iterator[None]:
    """Puts registries back as they were, and forgets the modules of plug-ins."""
    registries: list[Registry[Any]] = [policies, placers, predictors, FORMATS, charts]
    before = [{entry.name: entry for entry in registry} for registry in registries]
    modules, models = set(sys.modules), dict(_MODELS)
    yield
    _MODELS.clear()
    _MODELS.update(models)
    for registry, entries in zip(registries, before, strict=True):
        registry._entries.clear()
        registry._entries.update(entries)
    for name in set(sys.modules) - modules:
        if name.startswith("rm_emulator_plugin_"):
            del sys.modules[name]


@pytest.fixture(scope="session")
def packaged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Packaged:
    """The runs that several tests want."""
    return Packaged.of(request.config, tmp_path_factory)


@pytest.fixture(scope="module")
def no_report() -> Iterator[None]:
    """Runs of a file leave an empty report.html: for tests that look at no report, which is half the time of a run.

    Charts are tested where they are made.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rm_emulator.results.report.write", lambda out: (out / "report.html").write_text(""))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the whole suite, and of tests/same."""
    parser.addoption(
        "--nightly",
        action="store_true",
        help="all subjects of tests/contract, all examples, tests marked nightly or drawn",
    )
    parser.addoption("--update", action="store_true", help="tests/same: keep the hashes that are found")
    parser.addoption("--every-seed", action="store_true", help="tests/same: all seeds of the scenarios, not only one")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported, whose decorators ask for the profile."""
    # Some containers set it; each of the processes that tests start would then compile the whole tree anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if config.getoption("--nightly"):
        settings.load_profile(NIGHTLY)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # the order is that of `rank`


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules are a million objects that stay; a collection that looks at all of them takes half a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the night's, in the order of `rank`; then those that take minutes, so that none of them is begun last."""
    if not config.getoption("--nightly"):
        by_night = {item for item in items if item.get_closest_marker("nightly")} | _not_drawn(items)
        config.hook.pytest_deselected(items=list(by_night))
        items[:] = [item for item in items if item not in by_night]
    items.sort(key=lambda item: (rank(item.nodeid.partition("::")[0]), item.get_closest_marker("slow") is None))


def _not_drawn(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of tests marked as drawn the cases that are not the commit's; every worker of a run finds the same."""
    tests = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("drawn"):
            tests[item.nodeid.partition("[")[0]].append(item)
    commit, left = Commit.here(), set[pytest.Item]()
    for test, cases in tests.items():
        mark = cases[0].get_closest_marker("drawn")
        assert mark is not None
        drawn = commit.cases(test, [case.nodeid for case in cases], **mark.kwargs)
        left |= {case for case in cases if case.nodeid not in drawn}
    return left


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under --dist loadgroup files of a group go to one worker; by their names, so that no test's own is changed."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    return Groups(config, log) if config.getoption("dist") == "loadgroup" else None


BAD_INPUT: Final = "tests/bad_input/test_commands.py"
#: Shorter runs have nothing to tell of their durations, s.
LONG_RUN_S: Final = 60.0


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """With pytest-xdist the reports of all workers are here."""
    took = Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took[report.nodeid] += report.duration
    if not took:
        return
    keep(config.rootpath / "out" / "durations.json", took)
    if generated := sum(name.startswith(f"{BAD_INPUT}::test_a_value") for name in took):
        terminalreporter.write_line(f"generated bad input: {generated:,} cases")
    if took.total() > LONG_RUN_S:
        terminalreporter.section("twenty slowest tests, and minutes of all")
        for line in told(took):
            terminalreporter.write_line(line)


def keep(file: Path, took: Mapping[str, float]) -> None:
    """Seconds of each test as it ran last, by its name; a run of a part leaves the others as they are."""
    file.parent.mkdir(exist_ok=True)
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError):
        known = {}
    known |= {name: round(seconds, 3) for name, seconds in took.items()}
    beside = file.with_suffix(f".{os.getpid()}")  # a reader must not find half of it
    beside.write_text(json.dumps(dict(sorted(known.items())), indent=0))
    beside.rename(file)


def told(took: Mapping[str, float]) -> Iterator[str]:
    """The slowest tests in seconds, then the folders under tests/ in minutes."""
    for name, seconds in Counter(took).most_common(20):
        yield f"{seconds:7.1f} s    {name}"
    folders = Counter[str]()
    for name, seconds in took.items():
        folders["/".join(name.partition("::")[0].split("/")[:2])] += seconds
    for folder, seconds in folders.most_common():
        yield f"{seconds / 60:7.1f} min  {folder}"
