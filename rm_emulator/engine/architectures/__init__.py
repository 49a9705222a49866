"""Who decides, and when, where that is not one scheduler at once: one module for each kind, found by its name.

`architectures/two_level.py` has a class `TwoLevel`, a `Profile` that takes the place of profile `events`.
"""
