"""How many examples of a property are drawn, and how large a large one is: all by night, an eighth in CI."""

from __future__ import annotations

from hypothesis import settings

NIGHTLY, CI = "nightly", "ci"


def examples(by_night: int) -> int:
    """For properties with so many examples that they take long."""
    return by_night if settings.get_current_profile_name() == NIGHTLY else -(-by_night // 8)
