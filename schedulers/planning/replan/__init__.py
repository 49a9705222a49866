"""Re-planning: a fast simulator of executors that outlive tasks, and the search for better rules by its plays."""
