"""The small SLS folders of the Hadoop tests."""

from tests.hadoop.conftest import folder

__all__ = ["folder"]
