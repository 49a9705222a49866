"""Graphene's offline part (Grandl et al., OSDI 2016): the hard stuff of a DAG first, in resource-time space."""
