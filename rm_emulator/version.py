"""The version of the program, which runs and summaries name."""

__version__ = "0.1.0"
