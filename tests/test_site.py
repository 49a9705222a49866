"""The reference of the documentation site: everything that plugs in, every option, key, field and name has its place.

The built site, with its search and its links, is tested in tests/browser/test_site.py.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main
import yaml

from rm_emulator.cli import app
from rm_emulator.scenario.schema import Scenario
from rm_emulator.workload import formats
from schedulers.core.policy import policies
from schedulers.core.reasons import Reason
from schedulers.objects import names
from tests.test_architecture import graph

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def of_docs(name: str) -> ModuleType:
    """A module of the folder docs, which is no package."""
    pytest.importorskip("prometheus_client", reason="pip install -e '.[k8s]'")
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    """What writes the pages."""
    return of_docs("generated")


@pytest.fixture(scope="module")
def objects() -> ModuleType:
    """What writes the page of the Kubernetes objects."""
    return of_docs("objects")


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """What draws the pictures."""
    return of_docs("pictures")


@pytest.fixture(scope="module")
def reference(generated: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated pages and pictures."""
    folder = tmp_path_factory.mktemp("site") / "reference"
    generated.write(folder)
    return folder


def test_everything_that_plugs_in_has_a_page_with_its_source(generated: ModuleType, reference: Path) -> None:
    for kind, (registry, _, _) in generated.KINDS.items():
        for entry in registry:
            page = (reference / kind / f"{entry.name}.md").read_text(encoding="utf-8")
            assert f"**Source:** {entry.source}" in page


def test_every_setting_stands_on_the_page_of_its_policy(reference: Path) -> None:
    for entry in policies:
        page = (reference / "policies" / f"{entry.name}.md").read_text(encoding="utf-8")
        for parameter in entry.parameters():
            assert f"| `{parameter.name}` |" in page


#: Policies that cannot run the small workload, whose pages say why.
WITHOUT_PICTURE: set[str] = set()


def test_every_policy_has_a_picture(reference: Path) -> None:
    pages = {
        entry.name: (reference / "policies" / f"{entry.name}.md").read_text(encoding="utf-8") for entry in policies
    }
    assert {name for name, page in pages.items() if "<svg" not in page} == WITHOUT_PICTURE
    assert all("No picture, since" in pages[name] for name in WITHOUT_PICTURE)


def test_needs_are_of_policies_that_there_are(generated: ModuleType) -> None:
    assert set(generated.NEEDS) <= set(policies.names)


def test_every_reader_has_a_page_with_its_columns(reference: Path) -> None:
    for name in formats.names():
        page = (reference / "traces" / f"{name}.md").read_text(encoding="utf-8")
        assert all(f"| `{column['name']}` |" in page for column in formats.describe(name).get("columns") or ())


def test_the_picture_of_fifo_has_a_bar_for_each_of_the_21_tasks(generated: ModuleType) -> None:
    assert generated.picture_of("fifo").count("<rect ") == 21


def test_every_wait_reason_metric_and_command_has_its_row(reference: Path) -> None:
    reasons = (reference / "reasons.md").read_text(encoding="utf-8")
    assert all(f"| `{reason.value}` |" in reasons for reason in Reason)
    from operators import metrics

    assert metrics.table() in (reference / "metrics.md").read_text(encoding="utf-8")
    commands = (reference / "commands.md").read_text(encoding="utf-8")
    assert {"## `rm-emulator run`", "## `rm-emulator traces describe`"} <= set(commands.splitlines())


# -- options and keys --------------------------------------------------------------------------------------------------


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for below in getattr(command, "commands", {}):
        yield from commands(command.commands[below], f"{name} {below}")


COMMANDS = dict(commands(typer.main.get_command(app), "rm-emulator"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_has_its_row_with_a_meaning(name: str, reference: Path) -> None:
    page = (reference / "commands.md").read_text(encoding="utf-8")
    section = page.partition(f"## `{name}`\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    shown = {word for row in rows for word in row[0].strip("`").split()}
    assert {option for parameter in COMMANDS[name].params for option in parameter.opts if "-" in option} <= shown
    assert len(rows) == len(COMMANDS[name].params)
    assert [row for row in rows if len(row) < 2 or not row[1].strip()] == []


def test_every_key_of_a_scenario_has_its_row() -> None:
    page = (DOCS / "scenario.md").read_text(encoding="utf-8")
    schema = Scenario.model_json_schema()
    keys = {key for block in (schema, *schema["$defs"].values()) for key in block.get("properties", {})}
    assert {key for key in keys if f"| `{key}` |" not in page} == set()


# -- Kubernetes --------------------------------------------------------------------------------------------------------


def in_schema(schema: Any, path: str) -> Iterator[str]:
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}".lstrip(".")
        yield from in_schema(below, f"{path}.{name}")
    if "items" in schema:
        yield from in_schema(schema["items"], f"{path}[]")


CRDS = {
    crd["spec"]["names"]["kind"]: crd["spec"]["versions"]
    for file in (ROOT / "manifests" / "crds").glob("*.yaml")
    if (crd := yaml.safe_load(file.read_text(encoding="utf-8")))["kind"] == "CustomResourceDefinition"
}


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_of_a_custom_resource_has_its_row_with_a_meaning(
    kind: str, objects: ModuleType, reference: Path
) -> None:
    (version,) = CRDS[kind]
    fields = {field.path: field for field in objects.fields(kind)}
    assert set(fields) == set(in_schema(version["schema"]["openAPIV3Schema"], ""))
    assert [path for path, field in fields.items() if not field.meaning] == []
    page = (reference / "objects.md").read_text(encoding="utf-8")
    for path in fields:
        above, _, name = path.rpartition(".")
        heading = f"### {kind}.{above}\n" if above else f"### Top level of a {kind}\n"
        assert f"\n| `{name}` |" in page.partition(heading)[2].partition("\n#")[0], path


def test_no_meaning_is_of_a_field_that_is_gone(objects: ModuleType) -> None:
    assert set(objects.FIELDS) == set(CRDS)
    for kind, texts in objects.FIELDS.items():
        assert set(texts) - {field.path for field in objects.fields(kind)} == set()


def test_every_name_that_objects_carry_has_its_row(objects: ModuleType, reference: Path) -> None:
    page = (reference / "objects.md").read_text(encoding="utf-8")
    constants = {name: value for name, value in vars(names).items() if name.isupper()}
    types = {name for name, value in constants.items() if value in objects.CONDITIONS}
    assert set(constants) == {*objects.NAMES, *objects.NOT_CARRIED, *types}
    assert all(f"| `{constants[name]}` | {entry.kind} |" in page for name, entry in objects.NAMES.items())


def test_every_name_of_the_manifests_has_its_row(reference: Path) -> None:
    page = (reference / "objects.md").read_text(encoding="utf-8")
    text = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "manifests").rglob("*.yaml"))
    written = set(re.findall(r"rm-emulator\.io/[a-z-]+(?![a-z0-9-])", text))
    assert {name for name in written if f"`{name}`" not in page} == set()


def test_every_condition_has_its_row(objects: ModuleType, reference: Path) -> None:
    assert objects.condition_types() == set(objects.CONDITIONS)
    page = (reference / "objects.md").read_text(encoding="utf-8")
    assert all(f"| `{kind}` |" in page for kind in objects.CONDITIONS)


# -- pictures ----------------------------------------------------------------------------------------------------------


@pytest.mark.drawn(of=4)
def test_the_drawing_of_the_house_has_the_imports_of_the_code(pictures: ModuleType) -> None:
    packages = [name for floor in pictures.floors() for name in floor]
    inside = {name: {name, *graph().find_descendants(name)} for name in packages}
    real = {
        name: {
            other
            for other in packages
            if other != name
            and any(graph().find_modules_directly_imported_by(module) & inside[other] for module in inside[name])
        }
        for name in packages
    }
    assert pictures.imports() == real


@pytest.mark.drawn(of=4)
def test_in_the_house_every_import_points_down(pictures: ModuleType) -> None:
    level = {name: i for i, floor in enumerate(pictures.floors()) for name in floor}
    assert [(a, b) for a, others in pictures.imports().items() for b in others if level[b] <= level[a]] == []


def test_every_picture_of_an_idea_stands_on_a_page_that_says_how_it_is_made(
    pictures: ModuleType, reference: Path
) -> None:
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "ideas").glob("*.md")]
    for name in pictures.IDEAS:
        assert (reference / "pictures" / f"{name}.svg").exists()
        (page,) = [page for page in pages if f":file: ../reference/pictures/{name}.svg" in page]
        assert f"python docs/pictures.py pictures {name} " in page


def test_a_refused_claim_and_a_locked_offer_are_drawn(pictures: ModuleType) -> None:
    assert "✕" in pictures.architecture("shared-state")
    assert "offered to two" in pictures.architecture("two-level")


def test_each_heartbeat_with_starts_says_how_many(pictures: ModuleType) -> None:
    assert sum(map(int, re.findall(r">\+(\d)<", pictures.heartbeats()))) == 6
