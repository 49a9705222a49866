"""Facts of the API server: list and watch into small structs, and their translation to core events."""
