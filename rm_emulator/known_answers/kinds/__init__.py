"""The kinds of known-answer cases: one file for related ones, found by being here."""
