"""Who decides, and when, where that is not one scheduler at once: one module for each kind.

Each registers a `Profile` that takes the place of profile `events`.
"""
