"""Ranges of what the networks that ship met in training, written into their files.

    python -m studies.ranges

Each decides in episodes of its recipe, on the first training seeds. `rm-emulator train` notes such ranges by itself;
the files that ship are older.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from rm_emulator.files import write_file
from rm_emulator.learn import config as configs
from rm_emulator.learn.agents import Ask, decided
from rm_emulator.learn.rollouts import RolloutWorker, playable
from rm_emulator.program import end
from schedulers.core import keyed
from schedulers.core.policy import ClusterView
from schedulers.learned import model_store
from schedulers.learned.graph import Action, Graph
from schedulers.learned.network import Network
from schedulers.learned.ranges import Range, Ranges, merged, noted, ranges_of, rounded
from schedulers.learned.weights import pack

TRAINED: Final = Path(model_store.__file__).parent / "trained"
#: By name the rule that decides outside of the ranges.
NETWORKS: Final[Mapping[str, str]] = {"decima": "priced", "containers": "priced", "makespan": "proportional"}


def met(name: str, episodes: int) -> dict[str, Range]:
    """Ranges over so many episodes of each workload of the network's recipe, with ends as in training."""
    config = configs.read(configs.find(name))
    worker, found = RolloutWorker(playable(config.workloads)), list[Ranges]()
    for workload, source in enumerate(config.workloads):
        for number in range(episodes):
            limit = source.limit_ms(keyed.generator(config.seed, "ranges", number))
            network = Network(model_store.weights_of(name))  # what a network keeps belongs to one episode
            worker.episode(workload, configs.FIRST_TRAINING_SEED + number, limit).play(_noting(network, found))
            found = [merged(found)]
    return rounded(merged(found))


def _noting(network: Network, found: list[Ranges]) -> Ask[Graph, Action]:
    def ask(graph: Graph, _: ClusterView) -> Action:
        found.append(ranges_of(graph))
        return decided(network, graph, None)[0]

    return ask


def main(
    episodes: Annotated[int, typer.Option(min=1, help="played of each workload of a recipe")] = 20,
    folder: Annotated[Path, typer.Option(help="folder of the files that are written anew")] = TRAINED,
) -> None:
    """Write the ranges into the files."""
    for name, rule in NETWORKS.items():
        ranges, weights = met(name, episodes), model_store.weights_of(name)
        data = pack(msgspec.structs.replace(weights, about={**weights.about, **noted(ranges, rule)}))
        about = folder / f"{name}.json"
        said = json.loads(about.read_text(encoding="utf-8")) | {"sha256": sha256(data).hexdigest()}
        write_file(folder / f"{name}.safetensors", data)
        write_file(about, json.dumps(said, indent=1, ensure_ascii=False) + "\n")
        typer.echo(f"{name}: {ranges}")


if __name__ == "__main__":
    end(lambda: typer.run(main))
