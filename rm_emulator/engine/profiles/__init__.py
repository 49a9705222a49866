"""The profiles: one real system's timing in each module."""
