"""Where a question of `simulate` goes: to a run at a moment, to a file with a brain's memory, or to a live cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator.forecasts.answers import Answer
from rm_emulator.forecasts.asked import Question, ask, ask_present
from rm_emulator.forecasts.brains import may_list, present_at, present_in, shown
from rm_emulator.forecasts.moment import parse_moment
from rm_emulator.issues import InvalidInput
from rm_emulator.scenario.live import LiveCluster

#: Earlier moments of a run that judge such answers, where nothing else is asked for.
EARLIER: Final = 3


def answered(
    source: str | None,
    question: Question,
    cluster: LiveCluster | None,
    of_runs: Mapping[str, Any],
    plugins: Sequence[Path],
    how: Mapping[str, Any],
) -> Answer:
    """Answer a question: `source` is RUN_DIR@TIME or a file with the memory of a brain, None where a cluster is asked.

    of_runs: options for runs alone (label, seed, earlier), None where not given. how: `progress` and `engine` of `ask`.
    Raises InvalidInput and PlayFailed.
    """
    if (source is None) == (cluster is None):
        given = "" if cluster is None else f", got --from {source} and --kubeconfig {cluster.kubeconfig}"
        raise InvalidInput(f"expected either --from RUN_DIR@TIME|FILE or --kubeconfig FILE{given}")
    if cluster is None and source is not None and not Path(source).is_file():
        folder, at_ms = parse_moment(source)
        question = msgspec.structs.replace(question, at_ms=at_ms)
        label, seed = of_runs["label"], of_runs["seed"]
        return ask(folder, question, label=label, seed=seed, plugins=plugins, **how)
    for option, value in of_runs.items():
        if value is not None:
            raise InvalidInput(f"--{option} {value} makes sense for a run (--from RUN_DIR@TIME) alone")
    if cluster is None:
        return ask_present(present_in(Path(str(source))), question, plugins=plugins, **how)
    return shown(ask_present(present_at(cluster), question, plugins=plugins, **how), may_list(cluster))
