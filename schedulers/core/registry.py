"""Registries of policies, placers and predictors, inside the tree and outside it.

A decorated class is enough: the scenario schema, the CLI listing, the docs row and the contract tests follow from the
registration. Parameters are a frozen `msgspec.Struct` named `Params` inside the class, each field an `Annotated[...,
msgspec.Meta(description=...)]` with a default.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from schedulers.core.errors import InvalidParameters, UnknownName, nearest

T = TypeVar("T")
WORLDS: Final = ("emulator", "kubernetes")


class NoParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of classes without settings."""


class Parameter(msgspec.Struct, frozen=True):
    """A setting, as shown by listings."""

    name: str
    type: str
    default: Any
    description: str


class Entry(msgspec.Struct, Generic[T], frozen=True):
    """A registered class with its texts for listings."""

    name: str
    cls: type[T]
    source: str
    worlds: tuple[str, ...]

    @property
    def summary(self) -> str:
        """First line of the class docstring."""
        return (inspect.getdoc(self.cls) or "").partition("\n")[0]

    @property
    def params(self) -> type[msgspec.Struct]:
        """The struct of its settings."""
        found: type[msgspec.Struct] = getattr(self.cls, "Params", NoParams)
        return found

    def parameters(self) -> list[Parameter]:
        """Its settings in order of declaration."""
        # From the JSON schema, so that listings show the very bounds that checking applies.
        fields = msgspec.json.schema(self.params)["$defs"][self.params.__name__]["properties"]
        return [
            Parameter(
                field.encode_name,
                _type_name(fields[field.encode_name]),
                _default(field),
                str(fields[field.encode_name].get("description", "")),
            )
            for field in msgspec.structs.fields(self.params)
        ]

    def describe(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "name": self.name,
            "summary": self.summary,
            "source": self.source,
            "parameters": [msgspec.to_builtins(p) for p in self.parameters()],
            "worlds": list(self.worlds),
        }


class Registry(Generic[T]):
    """Named classes of a single kind.

    packages: packages with the classes. worlds: worlds of a class without worlds of its own. refuses: the reason to
    refuse a class, beyond the rules for every kind; ''.
    """

    def __init__(
        self,
        kind: str,
        *packages: str,
        worlds: tuple[str, ...] = WORLDS,
        refuses: Callable[[type], str] = lambda cls: "",
    ) -> None:
        self.kind, self._packages, self._worlds, self._refuses = kind, packages, worlds, refuses
        self._entries: dict[str, Entry[T]] = {}
        self._loaded = False

    def register(self, name: str, *, source: str, worlds: tuple[str, ...] = ()) -> Callable[[type[T]], type[T]]:
        """Class decorator: make `name` known. source: paper and section, or the origin of the idea."""

        def add(cls: type[T]) -> type[T]:
            if mistake := _mistake(name, cls) or self._refuses(cls):
                raise InvalidParameters(f"{self.kind} {name!r}: {mistake}")
            if not self._owns(cls):
                self._load()  # so that a plug-in with the name of one of our classes is refused
            there = self._entries.get(name)
            # The same class may come twice, for example when a notebook's cell is run again.
            if there is not None and _name(there.cls) != _name(cls):
                raise InvalidParameters(f"{self.kind} '{name}' is registered already, by {there.cls.__module__}")
            if missing := sorted(getattr(cls, "__abstractmethods__", ())):
                raise InvalidParameters(f"{self.kind} '{name}' lacks methods of its base: {', '.join(missing)}")
            self._entries[name] = Entry(name, cls, source, worlds or self._worlds)
            return cls

        return add

    @property
    def names(self) -> list[str]:
        """Names of all registered classes, sorted."""
        return [entry.name for entry in self]

    def entry(self, name: str) -> Entry[T]:
        """Raises UnknownName with the nearest valid name."""
        if name not in self:
            raise UnknownName(self.kind, name, self._entries)
        return self._entries[name]

    def __iter__(self) -> Iterator[Entry[T]]:
        self._load()
        return iter([self._entries[name] for name in sorted(self._entries)])

    def __contains__(self, name: str) -> bool:
        if name not in self._entries:
            self._load_one(name)
        if name not in self._entries:
            self._load()
        return name in self._entries

    def parse(self, spec: Mapping[str, Any]) -> tuple[type[T], msgspec.Struct]:
        """The class and its checked settings for `{'kind': name, **settings}`.

        Raises UnknownName, or InvalidParameters with the setting, the value and the accepted values.
        """
        settings = dict(spec)
        entry = self.entry(str(settings.pop("kind", "")))
        # Before msgspec's own check, whose message names neither the nearest setting nor the known ones.
        known = [f.encode_name for f in msgspec.structs.fields(entry.params)]
        for key in settings:
            if key not in known:
                near = nearest(key, known)
                hint = f", did you mean '{near}'?" if near else ""
                raise InvalidParameters(
                    f"{self.kind} '{entry.name}' has no setting '{key}'{hint} (it has: {', '.join(known) or 'none'})"
                )
        try:
            return entry.cls, msgspec.convert(settings, entry.params)
        except msgspec.ValidationError as error:
            raise InvalidParameters(f"{self.kind} '{entry.name}': {error}") from None

    def _owns(self, cls: type) -> bool:
        """Whether a class is of the registry's own packages."""
        return any(f"{cls.__module__}.".startswith(f"{package}.") for package in self._packages)

    def _load_one(self, name: str) -> None:
        """Import the module with the name of a class, if there is one: importing all modules takes a while."""
        for package in self._packages if not self._loaded else ():
            if name in _modules(package):
                importlib.import_module(f"{package}.{name}")

    def _load(self) -> None:
        if self._loaded:
            return
        # Before the imports, because a module may look into its own registry while it is being imported.
        self._loaded = True
        for package in self._packages:
            discover(package)


def discover(package: str) -> None:
    """Import a package and all its modules, or a single module, so that their classes register themselves."""
    # Sorted, so that the order of registration does not depend on the file system.
    for module in sorted(_modules(package)):
        importlib.import_module(f"{package}.{module}")


def _modules(package: str) -> set[str]:
    """Names of the modules in a package, which is imported; none for a single module."""
    found = importlib.import_module(package)
    return {module.name for module in pkgutil.iter_modules(getattr(found, "__path__", ()))}


def _mistake(name: object, cls: object) -> str:
    """The mistake in the class of a plug-in, or ''."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w.-]*", name):
        return "a name is a text of letters, digits, '_', '-' and '.', a letter in front"
    if not isinstance(cls, type):
        return f"a class is registered, not {cls!r}"
    params = getattr(cls, "Params", NoParams)
    if not (isinstance(params, type) and issubclass(params, msgspec.Struct)):
        return "its Params are no msgspec.Struct"
    # Every class must work with `{kind: NAME}` alone: contract tests and listings make it so.
    if lacking := [field.name for field in msgspec.structs.fields(params) if field.required]:
        return f"settings without a default: {', '.join(lacking)}"
    return ""


def _name(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default)
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    return None


def _type_name(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_type_name(option) for option in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type_name(schema.get('items', {})) if isinstance(schema.get('items'), dict) else 'any'}"
    return str(schema.get("type", "any"))
