"""Offline answers: what allocations would be at their best, to compare policies with."""
