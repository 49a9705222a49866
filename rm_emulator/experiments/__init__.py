"""Policy x seed grids."""
