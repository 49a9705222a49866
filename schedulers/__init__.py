"""The online scheduler core: it decides, and does nothing else (no clock, files, network, threads, logging)."""

from schedulers import moved as moved
