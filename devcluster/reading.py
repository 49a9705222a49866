"""Reads objects as `kubectl get` does, by HTTP: for whoever looks often, a process for each look is too dear."""

from __future__ import annotations

import argparse
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple

_TIMEOUT_S: Final = 30.0
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Kind(NamedTuple):
    """A kind of objects. base: path of its group and version; names: by which kubectl knows it."""

    base: str
    resource: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    names: frozenset[str]

    @property
    def api_version(self) -> str:
        """As objects say it."""
        return self.base.removeprefix("/apis/").removeprefix("/api/")

    def path(self, namespace: str | None, name: str | None) -> str:
        """Of one object, or of all; namespace: None for all."""
        inside = ["namespaces", namespace] if self.namespaced and namespace else []
        return "/".join([self.base, *inside, self.resource, *([name] if name else [])])


class Reader:
    """One API server's, as an administrator. key: of the certificate."""

    def __init__(self, url: str, *, authority: Path, certificate: Path, key: Path) -> None:
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
        handler = urllib.request.HTTPSHandler(context=context)
        self._url, self._opener = url, urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
        self._kinds: list[Kind] = []

    def get(self, *arguments: str) -> Any:
        """As `kubectl get KIND [NAME] [-n SPACE | -A] [-l LABELS] [--field-selector=FIELDS] -o json`.

        Raises RuntimeError with what the API server says.
        """
        asked = _PARSER.parse_args(arguments)
        kind = self._kind(asked.kind)
        path = kind.path(None if asked.all else asked.namespace, asked.name)
        fields = {"labelSelector": asked.labels, "fieldSelector": asked.fields}
        found = self.read(path, **{name: value for name, value in fields.items() if value})
        for item in found.get("items", [found]):
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
            item["metadata"].pop("managedFields", None)  # kubectl does not show them either
        return found

    def read(self, path: str, *, accept: str = "application/json", **query: str) -> Any:
        """Parsed JSON. Raises RuntimeError."""
        whole = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        return json.loads(self.read_raw(whole, accept=accept))

    def read_raw(self, path: str, *, accept: str = "*/*") -> bytes:
        """As `read`, not parsed."""
        request = urllib.request.Request(self._url + path, headers={"Accept": accept})  # noqa: S310 - https alone
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                content: bytes = answer.read()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.code} {error.read().decode(errors='replace').strip()}") from None
        except (OSError, HTTPException) as error:  # the latter: it was killed while it answered
            raise RuntimeError(f"{path}: {error}") from None
        return content

    def kinds(self) -> list[Kind]:
        """All that there are now, each in the version that the API server prefers."""
        found: dict[tuple[str, str], Kind] = {}
        for path in ("/api", "/apis"):
            for group in self.read(path, accept=_DISCOVERY)["items"]:
                for kind in _of_group(path, group):
                    found.setdefault((group["metadata"].get("name", ""), kind.resource), kind)
        return list(found.values())

    def _kind(self, name: str) -> Kind:
        if (kind := self._known(name)) is not None:
            return kind
        self._kinds = self.kinds()  # the kind may have come since they were read
        if (kind := self._known(name)) is not None:
            return kind
        raise RuntimeError(f"there is no kind {name!r}")

    def _known(self, name: str) -> Kind | None:
        return next((kind for kind in self._kinds if name in kind.names), None)


def _of_group(path: str, group: Mapping[str, Any]) -> Iterator[Kind]:
    own = group["metadata"].get("name", "")
    for version in group["versions"]:
        base = "/".join([path, *([own] if own else []), version["version"]])
        for each in version.get("resources", ()):
            names = {each["resource"], each.get("singularResource", ""), *each.get("shortNames", ())} - {""}
            whole = {f"{name}.{own}" for name in names} if own else set()
            scope, answers = each["scope"] == "Namespaced", each.get("responseKind", {}).get("kind", "")
            yield Kind(base, each["resource"], answers, scope, frozenset(each["verbs"]), frozenset(names | whole))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("kubectl get", add_help=False)
    parser.add_argument("kind")
    parser.add_argument("name", nargs="?")
    parser.add_argument("-n", dest="namespace", default="default")
    parser.add_argument("-A", dest="all", action="store_true")
    parser.add_argument("-l", dest="labels")
    parser.add_argument("--field-selector", dest="fields")
    return parser


_PARSER: Final = _parser()
