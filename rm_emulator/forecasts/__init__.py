"""What will happen: a run goes on from a moment, draw by draw, with run times that nobody knows yet."""
