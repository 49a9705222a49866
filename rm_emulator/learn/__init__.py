"""Training of policies that decide with a network (`schedulers.learned`), and the environment; alone it knows torch."""
