"""The tree as a whole: no circle of imports, between files or between packages, and nothing too large to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from schedulers.core.policy import Policy

ROOT = Path(__file__).parents[1]
PROGRAM = ("schedulers", "rm_emulator", "operators", "forecaster", "devcluster", "benchmarks", "studies")
FILES = sorted(file for package in PROGRAM for file in (ROOT / package).rglob("*.py"))
MAX_MODULE, MAX_CLASS, MAX_FUNCTION = 700, 400, 60
#: Classes that may be longer, each with the reason.
LONGER = {
    "schedulers/yarn/capacity.py CapacityScheduler": "follows Hadoop's class of that name method by method",
}
#: Whoever decides, and what it knows.
DECIDERS = ("Scheduler", "Decentraliser", "ClusterState")


@cache
def graph() -> grimp.ImportGraph:
    """Every import of the program, those inside functions and those for type checking alone too."""
    return grimp.build_graph(*PROGRAM, cache_dir=None)


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """The modules of one circle, [] when there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def between_children(package: str) -> dict[str, set[str]]:
    """The imports among a package's own modules and sub-packages, each with all that is in it."""
    children = sorted(graph().find_children(package))
    of = {module: child for child in children for module in (child, *graph().find_descendants(child))}
    imports: dict[str, set[str]] = {child: set() for child in children}
    for module, child in of.items():
        imported = {of[name] for name in graph().find_modules_directly_imported_by(module) if name in of}
        imports[child] |= imported - {child}
    return imports


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle({name: graph().find_modules_directly_imported_by(name) for name in graph().modules}) == []


@pytest.mark.parametrize("program", PROGRAM)
def test_no_packages_import_each_other_in_a_circle(program: str) -> None:
    packages = [name for name in (program, *graph().find_descendants(program)) if graph().find_children(name)]
    assert {name: found for name in packages if (found := circle(between_children(name)))} == {}


@cache
def definitions() -> list[tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, Path]]:
    """Every class and function of the program, with its file."""
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    trees = ((file, ast.parse(file.read_text(encoding="utf-8"))) for file in FILES)
    return [(node, file) for file, tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]


def lengths(kinds: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[tuple[int, str]]:
    """Lines of every definition of these kinds, each with its file and name."""
    for node, file in definitions():
        if isinstance(node, kinds):
            assert node.end_lineno is not None
            yield node.end_lineno - node.lineno + 1, f"{file.relative_to(ROOT)} {node.name}"


def test_no_module_is_too_long() -> None:
    sizes = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {name: lines for name, lines in sizes.items() if lines > MAX_MODULE} == {}


def test_no_class_is_too_long() -> None:
    assert [found for found in lengths(ast.ClassDef) if found[0] > MAX_CLASS and found[1] not in LONGER] == []


def test_the_run_itself_is_shorter_than_300_lines() -> None:
    (lines,) = (found[0] for found in lengths(ast.ClassDef) if found[1].endswith("simulation.py Simulation"))
    assert lines < 300


def test_no_function_is_too_long() -> None:
    assert [found for found in lengths((ast.FunctionDef, ast.AsyncFunctionDef)) if found[0] > MAX_FUNCTION] == []


def test_what_is_declared_below_is_not_declared_in_the_schema_again() -> None:
    """A scenario's blocks are the structs of core, engine and workloads; see docs/decisions/004-blocks.md."""
    schema = {cls for file in (ROOT / "rm_emulator" / "scenario" / "schema").glob("*.py") for cls in classes(file)}
    below = ("schedulers", "rm_emulator/engine", "rm_emulator/workload")
    declared = {cls for folder in below for file in (ROOT / folder).rglob("*.py") for cls in classes(file)}
    assert not {cls for cls in schema & declared if not cls.startswith("_")}


def test_of_the_engine_only_controls_look_into_a_scheduler_s_state() -> None:
    """`job.state`, and what a `Master` calls its own, is one job's."""
    found = []
    for file in sorted((ROOT / "rm_emulator" / "engine").rglob("*.py")):
        if file.name in ("control.py", "multiple_schedulers.py", "workers.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                found += [f"{file.name} {each.name}" for each in node.names if each.name in DECIDERS]
            elif isinstance(node, ast.Attribute) and node.attr == "state":
                whose = ast.unparse(node.value)
                found += [] if whose in ("job", "self") else [f"{file.name} {whose}.state"]
    assert found == []


def test_the_core_knows_no_workers_with_queues() -> None:
    core = (ROOT / "schedulers" / "core").rglob("*.py")
    assert [file.name for file in core if "sparrow" in file.read_text("utf-8").lower()] == []


def classes(file: Path) -> list[str]:
    """Names of a file's classes."""
    return [node.name for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.ClassDef)]


def test_a_policy_has_at_most_ten_members_inherited_ones_counted() -> None:
    members = {name for cls in Policy.__mro__[:-1] for name in (*vars(cls), *getattr(cls, "__annotations__", {}))}
    own = {name for name in members if not name.startswith("_")} | {"__init__"}
    assert len(own) <= 10, sorted(own)


def test_the_scheduler_asks_for_abilities_and_for_no_kind_of_policy_or_placer() -> None:
    tree = ast.parse((ROOT / "schedulers" / "core" / "scheduler.py").read_text("utf-8"))
    asked = {
        name.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "isinstance"
        for name in ast.walk(call.args[1])
        if isinstance(name, ast.Name)
    }
    assert asked <= {"Heartbeat", "OfferAsked", "Thought"}
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {"schedulers.kit.assigned", "schedulers.kit.ordered"}


def test_modules_are_imported_by_name_in_registries_and_the_plug_in_loader_alone() -> None:
    """An import by name is in no picture of the tree: whoever needs one finds it through a registry."""
    allowed = {"schedulers/core/registry.py", "schedulers/moved.py", "rm_emulator/plugins.py"}
    product = [ROOT / folder for folder in ("schedulers", "rm_emulator", "operators", "forecaster")]
    found = {
        str(file.relative_to(ROOT)) for folder in product for file in folder.rglob("*.py") if imports_by_name(file)
    }
    assert found <= allowed


def imports_by_name(file: Path) -> int:
    """How often a file imports a module whose name is data."""
    ways = {"import_module", "__import__", "spec_from_file_location", "exec_module"}
    calls = [node.func for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)]
    return sum(getattr(called, "attr", getattr(called, "id", "")) in ways for called in calls)
