"""One file per policy: which task next."""
