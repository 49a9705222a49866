"""The structs of our objects and the schemas of their CRDs say the same, field by field and in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from schedulers.objects.dagjob import DagJob, DagJobStatus, Progress, WholeDagJob
from schedulers.objects.queue import QueueObject

MANIFESTS = Path(__file__).parents[2] / "manifests"
#: What is read of an object's metadata is Kubernetes' own.
META = {"metadata", "apiVersion", "kind"}
SIMPLE = {
    msgspec.inspect.StrType: {"string"},
    msgspec.inspect.BoolType: {"boolean"},
    msgspec.inspect.IntType: {"integer"},
    msgspec.inspect.FloatType: {"number"},
}


def schema(name: str) -> dict[str, Any]:
    """The schema of the one version of a CRD."""
    crd = yaml.safe_load((MANIFESTS / f"crds/{name}.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def differences(struct: Any, said: dict[str, Any], path: str = "") -> Iterator[str]:
    """What a struct (or a type inside it) and a schema disagree about."""
    kinds = [kind for kind in alternatives(struct) if not isinstance(kind, msgspec.inspect.NoneType)]
    if said.get("x-kubernetes-preserve-unknown-fields"):
        return  # anything may stand there
    (kind,) = kinds
    if isinstance(kind, msgspec.inspect.StructType):
        yield from differing_fields(kind, said, path)
    elif isinstance(kind, msgspec.inspect.DictType):
        if said.get("type") != "object":
            yield f"{path}: a mapping, but {said.get('type')} in the CRD"
        elif "additionalProperties" in said:
            yield from differences(kind.value_type, said["additionalProperties"], f"{path}{{}}")
    elif isinstance(kind, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
        if said.get("type") != "array":
            yield f"{path}: a list, but {said.get('type')} in the CRD"
        else:
            yield from differences(kind.item_type, said["items"], f"{path}[]")
    elif said.get("type") not in SIMPLE[type(kind)]:
        yield f"{path}: {type(kind).__name__}, but {said.get('type')} in the CRD"


def differing_fields(kind: msgspec.inspect.StructType, said: dict[str, Any], path: str) -> Iterator[str]:
    fields = {field.encode_name: field for field in kind.fields}
    properties = said.get("properties", {})
    if said.get("type") != "object":
        yield f"{path}: a struct, but {said.get('type')} in the CRD"
    for name in fields.keys() ^ properties.keys():
        if path or name not in META:
            yield f"{path}.{name}: only in the {'struct' if name in fields else 'CRD'}"
    for name in sorted(fields.keys() & properties.keys() - (META if not path else set())):
        field, written = fields[name], properties[name]
        yield from differences(field.type, written, f"{path}.{name}")
        if field.required and name not in said.get("required", ()):
            yield f"{path}.{name}: required, but not in the CRD"
        if "default" in written and field.default != written["default"]:
            yield f"{path}.{name}: {field.default} by default, but {written['default']} in the CRD"


def alternatives(kind: Any) -> tuple[Any, ...]:
    return kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)


def undescribed(said: dict[str, Any], path: str = "") -> Iterator[str]:
    """Fields below a schema that have no description. Kubernetes accepts none on an object's own metadata."""
    for name, below in said.get("properties", {}).items():
        if not below.get("description") and (path or name != "metadata"):
            yield f"{path}.{name}"
        yield from undescribed(below, f"{path}.{name}")
    if "items" in said:
        yield from undescribed(said["items"], f"{path}[]")


@pytest.mark.parametrize("name", ["dagjob", "queue"])
def test_every_field_has_a_description(name: str) -> None:
    assert list(undescribed(schema(name))) == []


@pytest.mark.parametrize(("name", "struct"), [("dagjob", DagJob), ("dagjob", WholeDagJob), ("queue", QueueObject)])
def test_structs_and_schema_are_the_same(name: str, struct: Any) -> None:
    said = schema(name)
    if struct is WholeDagJob:  # its template is kept as it was written
        said["properties"]["spec"]["properties"]["stages"]["items"]["properties"]["template"] = {"type": "object"}
    assert list(differences(msgspec.inspect.type_info(struct), said)) == []


def test_a_field_that_is_missing_on_either_side_is_found() -> None:
    said = schema("dagjob")
    stages = said["properties"]["status"]["properties"]["stages"]["items"]["properties"]
    stages["lost"] = stages.pop("tries")
    stages["tasks"]["type"] = "string"
    drift = sorted(differences(msgspec.inspect.type_info(DagJob), said))
    assert drift == [
        ".status.stages[].lost: only in the CRD",
        ".status.stages[].tasks: IntType, but string in the CRD",
        ".status.stages[].tries: only in the struct",
    ]


def test_the_brain_may_write_those_fields_of_a_dagjobs_status_that_are_not_of_controllers_or_forecaster() -> None:
    brain = set(DagJobStatus.__struct_fields__) - set(Progress.__struct_fields__) - {"expected"}
    policies = list(yaml.safe_load_all((MANIFESTS / "base/policies.yaml").read_text()))
    (variables,) = (
        policy["spec"]["variables"]
        for policy in policies
        if policy["kind"] == "ValidatingAdmissionPolicy" and policy["metadata"]["name"] == "rm-brain-dagjobs"
    )
    (free,) = (variable["expression"] for variable in variables if variable["name"] == "free")
    assert set(yaml.safe_load(free)) == brain
