"""Which test files run in one worker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.groups import AFTER_OWN, COMPILED, CONTROL_PLANE, OWN, SHARED, group, rank, scope

FOLDER = Path(__file__).parent / "kubernetes"


@pytest.mark.parametrize("name", [*SHARED, *OWN, *AFTER_OWN])
def test_a_group_names_files_that_there_are(name: str) -> None:
    assert (FOLDER / f"test_{name}{CONTROL_PLANE}").exists()


@pytest.mark.parametrize("name", COMPILED)
def test_a_file_of_compiled_code_is_there_and_in_its_group(name: str) -> None:
    file = f"tests/learn/test_{name}.py"
    assert (FOLDER.parents[1] / file).exists()
    assert group(file) == "compiled"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("test_*.py")), ids=lambda file: file.stem)
def test_what_needs_a_control_plane_is_named_so(file: Path) -> None:
    assert ("pytest.mark.controlplane" in file.read_text()) is file.name.endswith(CONTROL_PLANE)


@pytest.mark.parametrize("file", sorted(FOLDER.glob(f"test_*{CONTROL_PLANE}")), ids=lambda file: file.stem)
def test_a_worker_has_one_control_plane(file: Path) -> None:
    wanted = set(re.findall(r"\b(devcluster|alone): ", file.read_text()))
    of = {"shared": {"devcluster"}, "alone": {"alone"}, "after own": {"alone"}, "own": set()}
    assert wanted == of[str(group(f"tests/kubernetes/{file.name}"))]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("tests/kubernetes/test_rbac_controlplane.py", "shared"),
        ("tests/kubernetes/test_chaos_controlplane.py", "own"),
        ("tests/kubernetes/test_loop_controlplane.py", "alone"),
        ("tests/kubernetes/test_guide_controlplane.py", "after own"),
        ("tests/browser/test_charts.py", "browser"),
        ("tests/policies/test_las.py", None),
    ],
)
def test_the_group_of_a_file(file: str, expected: str | None) -> None:
    assert group(file) == expected


def test_the_kills_are_begun_first_and_the_control_planes_and_the_pages_before_all_others() -> None:
    files = [
        "tests/browser/test_charts.py",
        "tests/test_pages.py",
        "tests/kubernetes/test_rbac_controlplane.py",
        "tests/kubernetes/test_loop_controlplane.py",
        "tests/kubernetes/test_guide_controlplane.py",
        "tests/kubernetes/test_chaos_controlplane.py",
    ]
    assert sorted(files, key=rank) == files[::-1]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/kubernetes/test_rbac_controlplane.py::test_a", "shared"),
        ("tests/kubernetes/test_guide_controlplane.py::test_a", "own"),
        (
            "tests/contract/test_contracts.py::test_promise[1-las-check_safe]",
            "tests/contract/test_contracts.py::test_promise[1-las]",
        ),
        ("tests/same/test_same.py::test_b[demo]", "tests/same/test_same.py::test_b[demo]"),
        ("tests/policies/test_las.py::test_b[1]", "tests/policies/test_las.py"),
    ],
)
def test_what_goes_to_one_worker(test: str, expected: str) -> None:
    assert scope(test) == expected
