"""Training of policies that decide with a network; the only place that knows torch. Decided with: `schedulers.learned`."""
