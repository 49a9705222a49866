"""A training run on disk."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.learn import checkpoints
from rm_emulator.learn.checkpoints import State

STATE = State(
    config="abc",
    iteration=7,
    weights=b"\x00now\x00",
    behind=b"",
    best=b"best",
    references=((75.6,), (130.0,)),
    moments={"stage.0.weight/exp_avg": np.array([[1.5, np.float32(1e-30)]], np.float32)},
    steps=3,
    elapsed_s=0.1,
)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    checkpoints.save(STATE, tmp_path)
    found = checkpoints.load(tmp_path)
    moments = found.moments.pop("stage.0.weight/exp_avg")
    assert np.array_equal(moments, STATE.moments["stage.0.weight/exp_avg"])
    assert found == State(**{name: getattr(STATE, name) for name in State.__struct_fields__} | {"moments": {}})


def test_a_file_that_was_cut_off_is_no_checkpoint(tmp_path: Path) -> None:
    checkpoints.save(STATE, tmp_path)
    path = tmp_path / checkpoints.NAME
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InvalidInput, match=r"checkpoint\.npz: no checkpoint that can be gone on with"):
        checkpoints.load(tmp_path)


def test_a_pickle_is_no_checkpoint(tmp_path: Path) -> None:
    np.savez(tmp_path / checkpoints.NAME, state=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(InvalidInput, match="no checkpoint that can be gone on with"):
        checkpoints.load(tmp_path)


def test_an_empty_folder_holds_no_run(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no training run to go on with"):
        checkpoints.load(tmp_path)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save(STATE, tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        checkpoints.save(State(config="later"), tmp_path)
    assert caught.value.filename == str(tmp_path / checkpoints.NAME)
    assert checkpoints.load(tmp_path).config == "abc"
    assert [file.name for file in tmp_path.iterdir()] == [checkpoints.NAME]
