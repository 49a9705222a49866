"""The command `train`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.learn.conftest import CONFIG, NEEDS_TORCH, SCENARIO


def write(folder: Path, config: str) -> Path:
    (folder / "small.yaml").write_text(SCENARIO)
    (folder / "config.yaml").write_text(config)
    return folder / "config.yaml"


def test_a_configuration_with_an_unknown_key_is_bad_input(command: Callable[..., Any], tmp_path: Path) -> None:
    said = command("train", write(tmp_path, CONFIG.replace("METHOD", "ppo") + "entropi: {}\n"))
    assert said.code == 2
    assert said.err.splitlines()[0].endswith("did you mean 'entropy'?")
    assert "config.yaml:11:1 entropi: unknown key 'entropi'" in said.err
    assert not (Path.cwd() / "out" / "train").exists()


@pytest.mark.slow
@NEEDS_TORCH
@pytest.mark.drawn(of=8)
def test_training_leaves_weights_and_says_how_good_they_are(command: Callable[..., Any], tmp_path: Path) -> None:
    source = write(tmp_path, CONFIG.replace("METHOD", "ppo").replace("iterations: 4", "iterations: 1"))
    out = tmp_path / "out"
    said = command("train", source, "--out", out, "--jobs", "1")
    assert said.code == 0
    assert said.out.startswith(f"{out / 'best.safetensors'}: iteration ")
    assert "of capped_sjf" in said.err
    again = command("train", source, "--out", out, "--jobs", "1")
    assert again.code == 2
    assert again.err == f"{out}: holds a training run: --resume goes on with it\n"


@NEEDS_TORCH
def test_a_folder_whose_name_is_no_utf_8_is_refused(command: Callable[..., Any], tmp_path: Path) -> None:
    said = command("train", write(tmp_path, CONFIG.replace("METHOD", "ppo")), "--out", "gro\udcffe")
    assert said.code == 2
    assert "TensorBoard needs a name in UTF-8" in said.err
    assert not any(path.name.startswith("gro") for path in Path.cwd().iterdir())


def test_more_than_1000_processes_are_refused(command: Callable[..., Any], tmp_path: Path) -> None:
    said = command("train", write(tmp_path, CONFIG.replace("METHOD", "ppo")), "--jobs", "9" * 30)
    assert said.code == 2
    assert "--jobs" in said.err
