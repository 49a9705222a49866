"""The file that says how a policy is trained."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.learn.config import PACKAGED, find, read
from schedulers.learned import model_store

TRAINED = Path(model_store.__file__).parent / "trained"
GOOD = """\
name: mine
workloads:
- scenario: demo
  weight: 2
ppo:
  clip: 0.3
"""


def mistake(folder: Path, text: str) -> str:
    (folder / "c.yaml").write_text(text)
    with pytest.raises(InvalidInput) as caught:
        read(folder / "c.yaml")
    return str(caught.value).removeprefix(str(folder / "c.yaml"))


def test_what_is_not_said_has_its_default(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(GOOD)
    config = read(tmp_path / "c.yaml")
    assert (config.ppo.clip, config.ppo.epochs, config.workloads[0].scenario) == (0.3, 3, "demo")


def test_the_page_shows_the_settings_of_the_packaged_configuration(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "learning.md").read_text()
    (tmp_path / "train.yaml").write_text(
        page.partition("```yaml\nname: mine")[2].partition("```")[0] + "name: decima\n"
    )
    shown, packaged = read(tmp_path / "train.yaml"), read(find("decima"))
    scenarios = [msgspec.structs.replace(each, scenario=Path(str(each.scenario)).name) for each in packaged.workloads]
    assert shown == msgspec.structs.replace(packaged, workloads=tuple(scenarios))


def test_the_packaged_configuration_of_lachesis_is_that_of_the_run_whose_weights_ship() -> None:
    (run,) = json.loads((TRAINED / "lachesis.json").read_text(encoding="utf-8"))["runs"]
    packaged = read(find("lachesis"))
    scenarios = [msgspec.structs.replace(each, scenario=Path(str(each.scenario)).name) for each in packaged.workloads]
    here = msgspec.structs.replace(packaged, workloads=tuple(scenarios))
    assert msgspec.convert(run["config"], type(packaged)) == here


def test_weights_that_ship_may_be_begun_from() -> None:
    assert read(find("makespan")).start == "decima"


def test_scenarios_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    (tmp_path / "c.yaml").write_text(GOOD)
    assert read(tmp_path / "c.yaml").workloads[0].scenario == str(tmp_path / "demo")


@pytest.mark.parametrize("name", sorted(file.stem for file in PACKAGED.glob("decima*.yaml")))
def test_packaged_configurations_are_read(name: str) -> None:
    assert read(find(name)).name == name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("  clip: 0.3", "  klip: 0.3"),
            ":6:3 ppo.klip: unknown key 'klip' (accepted: epochs, minibatches, clip, target_kl, learning_rate, "
            "max_norm, keep), did you mean 'clip'?",
        ),
        (
            ("  weight: 2", "  wait: 2"),
            ":4:3 workloads[0].wait: unknown key 'wait' (accepted: scenario, weight, limit_s, growth, horizon_s, "
            "seeds, plays), did you mean 'weight'?",
        ),
        (
            ("  weight: 2", "  seeds: 4..1"),
            ":4:10 workloads[0].seeds: empty range of seeds: '4..1' (write the smaller number first)",
        ),
        (("  clip: 0.3", "  clip: -1"), ":6:9 ppo.clip: Expected `float` > 0.0"),
        (("name: mine\n", ""), ":1:1: Object missing required field `name`"),
        (
            ("name: mine\n", "name: mine\nvalidation: {seeds: 3000000..3000001}\n"),
            ":2:21 validation.seeds: 3000000..3000001: expected seeds below 1000000, where those of training begin",
        ),
    ],
)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert mistake(tmp_path, GOOD.replace(*change)) == said


def test_an_unknown_name_is_said_with_the_nearest() -> None:
    with pytest.raises(
        InvalidInput, match=r"decimal: no such file, nor a packaged configuration .*did you mean 'decima'"
    ):
        find("decimal")
