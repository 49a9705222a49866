"""The Helm chart, made of what kustomize makes of the overlays: `python -m devcluster chart` writes `manifests/helm`.

kustomize puts marks where a namespace and a prefix go, so its own rules say which names follow; the marks then become
expressions of Helm, as do the values below. An object that differs between overlays stands once for each variant.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import types
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import yaml

from devcluster.installation import MANIFESTS
from operators.controllers.config import ControllersConfig
from operators.extender.config import BrainConfig
from rm_emulator.files import write_file
from schedulers.core.placer import placers
from schedulers.core.policy import policies
from schedulers.core.predictor import predictors

FOLDER: Final = MANIFESTS / "helm"
#: The first is the default.
OVERLAYS: Final = ("dev", "production", "older")
#: The value that turns the objects of a component on.
COMPONENTS: Final = {
    "cert-manager": "certManager.enabled",
    "forecaster": "forecaster.enabled",
    "service-monitor": "serviceMonitor.enabled",
}
#: Settings of brain that belong to the overlay; the others are values.
_FIXED: Final = ("extender", "management", "storage")
#: Settings of a process that the manifests decide.
_NO_VALUES: Final = ("extender", "management", "kubeconfig", "namespace")
_DURATION: Final = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)$"}
#: Settings of brain that the controllers have, too.
_SHARED: Final = ("nodes", "resources")
_NAMESPACE: Final = "NAMESPACE-OF-THE-RELEASE"
_PREFIX: Final = "PREFIX-OF-NAMES-"
_MADE: Final = "# Made by `python -m devcluster chart`: change the overlays instead.\n"
_GUARDS: Final = {
    "NetworkPolicy": ".Values.networkPolicy.enabled",
    "Namespace": "(and .Values.namespace (ne .Values.namespace .Release.Namespace))",
}

_CHART: Final = """\
apiVersion: v2
name: rm-emulator
description: Weighted queues, gangs, DAGs and learned run times for pods, beside the cluster's own scheduler
type: application
version: {version}
appVersion: {version}
kubeVersion: ">=1.35.0-0"
"""
_VALUES: Final = """\
# Which overlay of manifests/overlays: dev (one replica, plain HTTP in the pod), production (two replicas, TLS, volumes;
# needs the two Secrets, of certificates.sh or cert-manager), older (dev for Kubernetes 1.35).
overlay: dev
# Where the parts run: "" for the release's namespace. Another one is made, with the labels of Pod Security.
namespace: ""
# Before every name, such as acme-.
namePrefix: ""
image:
  repository: {image}
  tag: ""  # "": the chart's appVersion
imagePullSecrets: []  # such as [{{name: registry}}]
schedulerImage: {scheduler_image}

brain:
  replicas: null  # null: the overlay's (1, in production 2); more than one needs production
  resources: {brain}
  # Brain's configuration: docs/platform/choose-a-policy.md. null takes a setting away. nodes and resources go to the
  # controllers, too.
  settings:
{settings}
scheduler:
  resources: {scheduler}
controllers:
  replicas: null
  resources: {controllers}
  settings:
{controllers_settings}

# Queues, each a name and what the spec of a Queue has: [{{name: data, weight: 3}}, {{name: etl, parent: data}}]
# One that is taken away here stays: kubectl delete queue NAME.
queues: []

networkPolicy:
  enabled: true
# ServiceMonitors; need the Prometheus operator.
serviceMonitor:
  enabled: false
# The Secrets of the overlay production; needs cert-manager.
certManager:
  enabled: false
# When will DagJobs start and end? docs/operate/when-will-it-run.md
forecaster:
  enabled: false
"""


class _Expressions:
    """Expressions of Helm by the plain word that stands for each until the objects are text."""

    def __init__(self) -> None:
        self._all: list[str] = []

    def __call__(self, text: str) -> str:
        """The word for an expression."""
        self._all.append(text)
        return f"HELM{len(self._all) - 1}MLEH"

    def put(self, text: str) -> str:
        """Text with its words as expressions; braces that are its own stay what they are."""
        text = text.replace("{{", '{{ "{{" }}')
        text = re.sub(r"HELM(\d+)MLEH", lambda found: self._all[int(found[1])], text)
        return text.replace(_NAMESPACE, '{{ include "rm.namespace" . }}').replace(_PREFIX, "{{ .Values.namePrefix }}")


def write_chart(kubectl: Path, folder: Path = FOLDER) -> None:
    """Write the chart's files that are made, and remove those that are made no more."""
    files = made(kubectl)
    for old in folder.glob("templates/*.yaml"):
        if old.read_text().startswith(_MADE) and str(old.relative_to(folder)) not in files:
            old.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, text)


def made(kubectl: Path) -> dict[str, str]:
    """Path inside the chart -> text."""
    overlays = {name: rendered(kubectl, name) for name in OVERLAYS}
    values = _values(overlays)
    files: dict[str, list[str]] = {}
    for key, variants in _by_object(overlays).items():
        files.setdefault(f"templates/{key[0].lower()}.yaml", []).append(_guarded(key[0], variants))
    for component, value in COMPONENTS.items():
        extra = rendered(kubectl, "production", component)
        objects = (one for key, one in extra.items() if key not in overlays["production"])
        text = "".join(_guarded(one["kind"], [([*OVERLAYS], one)]) for one in objects)
        files[f"templates/{component}.yaml"] = [f"{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n"]
    return {
        "Chart.yaml": _MADE + _CHART.format(version=values.pop("version")),
        "values.yaml": _MADE + _VALUES.format(**values),
        "values.schema.json": json.dumps(_schema(overlays), indent=2) + "\n",
        **{name: _MADE + "".join(parts) for name, parts in files.items()},
    }


Key = tuple[str, str]


def rendered(kubectl: Path, overlay: str, component: str = "") -> dict[Key, dict[str, Any]]:
    """Objects of an overlay by kind and name, with marks for namespace and prefix."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        above = {
            "namespace": _NAMESPACE,
            "namePrefix": _PREFIX,
            "resources": [os.path.relpath(MANIFESTS / "overlays" / overlay, folder)],
            "components": [os.path.relpath(MANIFESTS / "components" / component, folder)] if component else [],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(above))
        command = [str(kubectl), "kustomize", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - found or built by us
    if done.returncode:
        raise RuntimeError(f"kubectl kustomize: {done.stderr.strip()}")
    objects = documents(done.stdout)
    for one in objects:
        if "AdmissionPolicy" in one["kind"]:  # kustomize does not know that these kinds have no namespace
            one["metadata"].pop("namespace", None)
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML text."""
    return [one for one in yaml.load_all(text, _Loader) if one]


def _by_object(overlays: Mapping[str, dict[Key, dict[str, Any]]]) -> dict[Key, list[tuple[list[str], dict[str, Any]]]]:
    """The variants of each object, each with the overlays that have it."""
    found: dict[Key, list[tuple[list[str], dict[str, Any]]]] = {}
    for overlay, objects in overlays.items():
        for key, one in objects.items():
            variants = found.setdefault(key, [])
            same = next((where for where, other in variants if other == one), None)
            if same is not None:
                same.append(overlay)
            else:
                variants.append(([overlay], one))
    return found


def _guarded(kind: str, variants: list[tuple[list[str], dict[str, Any]]]) -> str:
    """The documents of one object with the conditions under which each is there."""
    guard = _GUARDS.get(kind)
    if len(variants) == 1 and len(variants[0][0]) == len(OVERLAYS):
        text = _text([variants[0][1]])
        return text if guard is None else f"{{{{- if {guard} }}}}\n{text}{{{{- end }}}}\n"
    text = ""
    for where, one in variants:
        named = f"(has .Values.overlay (list {' '.join(json.dumps(name) for name in where)}))"
        condition = named if guard is None else f"(and {guard} {named})"
        text += f"{{{{- {'else if' if text else 'if'} {condition} }}}}\n{_text([one])}"
    return text + "{{- end }}\n"


# -- values -------------------------------------------------------------------------------------


def _text(objects: list[dict[str, Any]]) -> str:
    """Documents in which the values are expressions."""
    say = _Expressions()
    text = "".join("---\n" + _dump(_valued(one, say)) for one in objects)
    return say.put(text)


def _valued(given: dict[str, Any], say: _Expressions) -> dict[str, Any]:
    one: dict[str, Any] = json.loads(json.dumps(given))
    name = _plain(one)
    if one["kind"] == "CustomResourceDefinition":
        # Templates, unlike the folder crds/, change with an upgrade; without this line jobs would go with the release.
        one["metadata"].setdefault("annotations", {})["helm.sh/resource-policy"] = "keep"
    elif one["kind"] == "Deployment":
        _value_deployment(one, name.removeprefix("rm-"), say)
    elif one["kind"] == "ConfigMap" and name in ("rm-brain", "rm-controllers"):
        part = name.removeprefix("rm-")
        one["data"]["config.yaml"] = _valued_config(one["data"]["config.yaml"], part, say)
    return one


def _value_deployment(one: dict[str, Any], part: str, say: _Expressions) -> None:
    spec, template = one["spec"], one["spec"]["template"]
    template["spec"]["imagePullSecrets"] = say("{{ toJson .Values.imagePullSecrets }}")
    for container in [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]:
        image = ".Values.schedulerImage" if container["name"] == "kube-scheduler" else 'include "rm.image" .'
        container["image"] = say(f"{{{{ {image} | quote }}}}")
    if part == "forecaster":  # on or off is all that is a value
        return
    spec["replicas"] = say(f"{{{{ .Values.{part}.replicas | default {spec['replicas']} }}}}")
    # A process reads its configuration at the start: other settings are other pods.
    settings = say('{{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum | quote }}')
    template["metadata"].setdefault("annotations", {})["rm-emulator.io/settings"] = settings
    for container in template["spec"]["containers"]:
        owner = part if container["name"] != "kube-scheduler" else "scheduler"
        container["resources"] = say(f"{{{{ toJson .Values.{owner}.resources }}}}")


def _valued_config(text: str, part: str, say: _Expressions) -> str:
    """A configuration file whose settings are values, but for those of the overlay."""
    lines = [say(f"{{{{- toYaml .Values.{part}.settings | nindent 4 }}}}")]
    if part == "controllers":
        shared = " ".join(json.dumps(name) for name in _SHARED)
        lines.append(say(f"{{{{- pick .Values.brain.settings {shared} | toYaml | nindent 4 }}}}"))
    for key, block in _blocks(text).items():
        if key == "storage":
            lines += [say('{{- if not (hasKey .Values.brain.settings "storage") }}'), block, say("{{- end }}")]
        elif key in _FIXED:
            lines.append(block)
    return "\n".join(lines) + "\n"


def _blocks(text: str) -> dict[str, str]:
    """The lines of each key of a file."""
    return {found[1]: found[0] for found in re.finditer(r"^(\w+):.*(?:\n[ #].*)*", text, re.MULTILINE)}


def _values(overlays: Mapping[str, dict[Key, dict[str, Any]]]) -> dict[str, Any]:
    """What the manifests say of everything that is a value."""
    objects = {(kind, name.removeprefix(_PREFIX)): one for (kind, name), one in overlays[OVERLAYS[0]].items()}
    containers = {
        container["name"]: container
        for part in ("rm-brain", "rm-controllers")
        for container in objects["Deployment", part]["spec"]["template"]["spec"]["containers"]
    }
    image, _, version = containers["brain"]["image"].rpartition(":")
    brain, controllers = (_settings(objects["ConfigMap", name]) for name in ("rm-brain", "rm-controllers"))
    return {
        "version": version,
        "image": image,
        "scheduler_image": containers["kube-scheduler"]["image"],
        "brain": _flow(containers["brain"]["resources"]),
        "scheduler": _flow(containers["kube-scheduler"]["resources"]),
        "controllers": _flow(containers["controllers"]["resources"]),
        "settings": _indented(brain),
        "controllers_settings": _indented({k: v for k, v in controllers.items() if k not in _SHARED}),
    }


def _settings(config_map: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = yaml.safe_load(config_map["data"]["config.yaml"])
    return {key: value for key, value in given.items() if key not in _FIXED}


def _indented(settings: Mapping[str, Any]) -> str:
    return "\n".join(f"    {key}: {_flow(value)}" for key, value in settings.items())


def _flow(value: Any) -> str:
    """In one line."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).removesuffix("...\n").strip()


def _plain(one: Mapping[str, Any]) -> str:
    return str(one["metadata"]["name"]).removeprefix(_PREFIX)


# -- the schema of the values -------------------------------------------------------------------


def _schema(overlays: Mapping[str, dict[Key, dict[str, Any]]]) -> dict[str, Any]:
    """From our configurations and the CRD of queues, so that a value is refused before anything is applied."""
    brain, controllers = _process(BrainConfig, _NO_VALUES), _process(ControllersConfig, (*_NO_VALUES, *_SHARED))
    for key, registry in (("policy", policies), ("predictor", predictors), ("placement", placers)):
        kinds = [entry.name for entry in registry if "kubernetes" in entry.worlds]
        kind = {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": kinds}}}
        brain["properties"][key] = kind if key == "policy" else {"oneOf": [{"type": "null"}, kind]}
    brain["required"] = ["policy", "nodes", "resources"]
    crd = next(one for (kind, name), one in overlays[OVERLAYS[0]].items() if name == "queues.rm-emulator.io")
    (version,) = crd["spec"]["versions"]
    queue = _closed(version["schema"]["openAPIV3Schema"]["properties"])
    name = {**queue["metadata"]["properties"]["name"], "minLength": 1}
    queues = {**queue["spec"], "required": ["name", *queue["spec"].get("required", ())]}
    queues["properties"] = {"name": name, **queue["spec"]["properties"]}
    part = {"replicas": {"type": ["integer", "null"], "minimum": 1}, "resources": {"type": "object"}}
    switch = _object({"enabled": {"type": "boolean"}})
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    text = {"type": "string", "minLength": 1}
    values = {
        "overlay": {"enum": list(OVERLAYS)},
        "namespace": {"type": "string", "maxLength": 63, "pattern": f"^({label})?$"},
        "namePrefix": {"type": "string", "maxLength": 30, "pattern": "^([a-z0-9][-a-z0-9]*)?$"},
        "image": _object({"repository": text, "tag": {"type": "string"}}),
        "imagePullSecrets": {"type": "array", "items": _object({"name": text})},
        "schedulerImage": text,
        "brain": _object({**part, "settings": brain}),
        "scheduler": _object({"resources": {"type": "object"}}),
        "controllers": _object({**part, "settings": controllers}),
        "queues": {"type": "array", "items": queues},
        **dict.fromkeys(("networkPolicy", "serviceMonitor", "certManager", "forecaster"), switch),
        "global": {"type": "object"},  # Helm's own
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_object(values)}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _process(kind: type[msgspec.Struct], without: Collection[str] = ()) -> dict[str, Any]:
    """The schema of a process's settings."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    return _object({name: _setting(type_) for name, type_ in fields.items() if name not in without})


def _setting(type_: Any) -> dict[str, Any]:
    options = get_args(type_) if isinstance(type_, types.UnionType) else (type_,)
    struct = next((one for one in options if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
    if struct is None:
        return msgspec.json.schema(type_, schema_hook=lambda _: _DURATION)
    return _process(struct) if len(options) == 1 else {"oneOf": [{"type": "null"}, _process(struct)]}


def _closed(schema: Any) -> Any:
    """A schema whose objects have the properties that it names and no others, without extensions of Kubernetes."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: _closed(v) for k, v in schema.items() if not k.startswith("x-kubernetes-") and k != "description"}
    if isinstance(kept.get("properties"), dict) and kept.get("type") == "object":
        kept.setdefault("additionalProperties", False)
    return kept


# -- text ---------------------------------------------------------------------------------------


class _Loader(yaml.CSafeLoader):
    """1e-06 is a number, as it is for Kubernetes."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


class _Dumper(yaml.SafeDumper):
    """Lines of a text as they are; names in quotes, because a prefix could begin with a digit."""


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    marked = _NAMESPACE in text or _PREFIX in text
    style = "|" if "\n" in text else '"' if marked else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def _dump(one: Mapping[str, Any]) -> str:
    return yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
