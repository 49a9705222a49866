"""Training of policies that decide with a network, and the environment for it; the only place that knows torch."""
