"""Plans made ahead, a folder per paper; `locality` is delay scheduling's own arithmetic."""
