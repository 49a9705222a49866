"""The commands of docs/platform/tutorial.md, in the order in which they stand, on a control plane that they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kubernetes.installed import programs
from tests.pages import Shell, blocks, commands, prints

pytestmark = pytest.mark.controlplane

PAGE = "docs/platform/tutorial.md"
#: Where `python -m devcluster` puts the control plane on a reader's machine.
FOLDER = "/tmp/rm-devcluster"


@pytest.mark.drawn(of=8)
def test_the_tutorial_works_from_top_to_bottom(tmp_path: Path) -> None:
    here = str(tmp_path / "rm-devcluster")
    shell = Shell(
        tmp_path,
        KUBECONFIG=f"{here}/admin.kubeconfig",
        KUBEBUILDER_ASSETS=str(tmp_path / "bin"),
        TMPDIR=str(tmp_path),
    )
    for name, program in programs().items():
        (tmp_path / "bin" / name).symlink_to(program)
    try:
        for block in blocks(PAGE):
            if block.file:
                (shell.folder / block.file).write_text(block.text)
            for command in commands(block):
                printed = shell.run(command.text.replace(FOLDER, here))
                says = [line.replace(FOLDER, here) for line in command.says]
                assert not says or prints(says, printed), f"{command.text}\n{printed}"
    finally:
        shell.run("python -m devcluster down")
