"""Known-answer cases: small scheduling problems with published answers, run through the real code."""
