"""One file per predictor: what a task will take."""
