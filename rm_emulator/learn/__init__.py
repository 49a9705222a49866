"""Training of policies that decide with a network (`schedulers.learned`); the only place that knows torch."""
