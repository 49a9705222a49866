"""Completion in a shell after `rm-emulator --install-completion`: scenarios, policies, formats, labels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Context  # which reads the annotations of what completes

if TYPE_CHECKING:
    from schedulers.core.registry import Registry


def scenarios(incomplete: str) -> list[str]:
    """The packaged examples, folders and YAML files with the given beginning."""
    at = Path(incomplete)
    folder, begun = (at, "") if incomplete.endswith("/") else (at.parent, at.name)
    found = [path for path in folder.glob(f"{begun}*") if path.is_dir() or path.suffix in (".yaml", ".yml")]
    return [*examples(incomplete), *sorted(f"{path}/" if path.is_dir() else str(path) for path in found)]


def examples(incomplete: str) -> list[str]:
    """The packaged examples."""
    from rm_emulator.scenario import examples as packaged

    return _from((name for name, _ in packaged.summaries()), incomplete)


def registry(noun: str) -> Registry[Any]:
    """The registry listed by the command of the given name."""
    # The emulator's registries take a second to import, which no completion of a policy should wait for.
    if noun == "charts":
        from rm_emulator.results.chart import charts

        return charts
    if noun == "profiles":
        from rm_emulator.engine.profile import profiles

        return profiles
    from schedulers.core.placer import placers
    from schedulers.core.policy import policies
    from schedulers.core.predictor import predictors

    cores: dict[str, Registry[Any]] = {"policies": policies, "predictors": predictors, "placers": placers}
    return cores[noun]


def registered(context: Context, incomplete: str) -> list[str]:
    """The names in the command's registry."""
    return _from(registry(str(context.info_name)).names, incomplete)


def formats(incomplete: str) -> list[str]:
    """The formats of `convert`."""
    from rm_emulator.workload import formats as readers

    return _from(readers.names(), incomplete)


def labels(context: Context, incomplete: str) -> list[str]:
    """The labels of the run directories already on the command line."""
    return _from(sorted({path.name for named in context.args for path in Path(named).glob("runs/*")}), incomplete)


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
