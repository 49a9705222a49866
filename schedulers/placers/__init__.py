"""One file per placer: on which node."""
