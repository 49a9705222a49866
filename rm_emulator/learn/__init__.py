"""The environment, and training of policies with a network (`schedulers.learned`); only this package uses torch."""
