"""Plans that are made ahead, by the papers that they are from; `locality` is delay scheduling's own arithmetic."""
