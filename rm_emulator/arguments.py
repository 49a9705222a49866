"""Commands that check their words before typer converts them: no value is empty, and mistakes show the value seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

#: What the metavar of a file or folder has in it.
_PLACES: Final = ("DIR", "FILE", "INPUT", "OUTPUT", "WORKLOAD", "EVENTS", ".yaml")
#: Longer values are cut in messages, characters.
_SHOWN: Final = 60


class _Checked:
    """Of a command or a group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words that are left. Raises InvalidInput for an empty value; typer's own errors show the value."""
        command: Any = self
        given, _, _ = command.make_parser(ctx).parse_args(args=list(args)) if args else ({}, [], [])
        for parameter in command.get_params(ctx):
            for value in _values(given, parameter):
                if not value.strip():
                    raise _empty(parameter, value)
        above: Any = super()
        try:
            left: list[str] = above.parse_args(ctx, args)
        except typer.BadParameter as error:
            seen = [_shown(value) for value in _values(given, getattr(error, "param", None))]
            if seen and seen[-1] not in error.message:
                error.message = f"{', '.join(seen)}: {error.message}"
            raise
        return left


class CheckedCommand(_Checked, TyperCommand):
    """A command."""


class CheckedGroup(_Checked, TyperGroup):
    """A group of commands."""


class CheckedTyper(typer.Typer):
    """Registers commands that look at their words."""

    def command(self, *args: Any, **settings: Any) -> Callable[[Any], Any]:
        """As typer's own."""
        return super().command(*args, cls=CheckedCommand, **settings)


def _values(given: Mapping[str, Any], parameter: Any) -> list[str]:
    value = given.get(parameter.name) if parameter is not None else None
    each = value if isinstance(value, list | tuple) else [value]
    return [word for word in each if isinstance(word, str)]


def _empty(parameter: Any, value: str) -> Exception:
    from rm_emulator.issues import InvalidInput

    name = next((word for word in reversed(parameter.opts) if word.startswith("-")), None) or parameter.metavar
    name = name or parameter.name.upper()
    if any(word in f"{parameter.metavar}" for word in _PLACES):
        return InvalidInput(f"{name}: '{value}' is no name of a file or folder (. is the current folder)")
    return InvalidInput(f"{name}: '{value}' is empty")


def _shown(value: str) -> str:
    return f"'{value}'" if len(value) <= _SHOWN else f"'{value[:_SHOWN]}...'"
