"""Shell 1: the resource manager emulated on simulated time."""
