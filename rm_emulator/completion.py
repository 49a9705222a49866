"""What a shell completes once `rm-emulator --install-completion` was run: scenarios, policies, formats, labels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typer import Context  # which reads the annotations of what completes


def scenarios(incomplete: str) -> list[str]:
    """The packaged examples, and the folders and YAML files that go on so."""
    at = Path(incomplete)
    folder, begun = (at, "") if incomplete.endswith("/") else (at.parent, at.name)
    found = [path for path in folder.glob(f"{begun}*") if path.is_dir() or path.suffix in (".yaml", ".yml")]
    return [*examples(incomplete), *sorted(f"{path}/" if path.is_dir() else str(path) for path in found)]


def examples(incomplete: str) -> list[str]:
    """The packaged examples."""
    from rm_emulator.scenario import examples as packaged

    return _from((name for name, _ in packaged.summaries()), incomplete)


def policies(incomplete: str) -> list[str]:
    """The registered policies."""
    from schedulers.core.policy import policies as registry

    return _registered(registry, incomplete)


def predictors(incomplete: str) -> list[str]:
    """The registered predictors."""
    from schedulers.core.predictor import predictors as registry

    return _registered(registry, incomplete)


def placers(incomplete: str) -> list[str]:
    """The registered placers."""
    from schedulers.core.placer import placers as registry

    return _registered(registry, incomplete)


def charts(incomplete: str) -> list[str]:
    """The registered charts."""
    from rm_emulator.results.chart import charts as registry

    return _registered(registry, incomplete)


def profiles(incomplete: str) -> list[str]:
    """The registered profiles."""
    from rm_emulator.engine.profile import profiles as registry

    return _registered(registry, incomplete)


def formats(incomplete: str) -> list[str]:
    """What `convert` reads."""
    from rm_emulator.workload import formats as readers

    return _from(readers.names(), incomplete)


def labels(context: Context, incomplete: str) -> list[str]:
    """The labels of the run directories that the command line has named already."""
    return _from(sorted({path.name for named in context.args for path in Path(named).glob("runs/*")}), incomplete)


def _registered(registry: Any, incomplete: str) -> list[str]:
    return _from(registry.names, incomplete)


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
