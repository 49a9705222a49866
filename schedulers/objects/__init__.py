"""API objects as both shells read them: small structs, and their meaning for the core. No I/O."""
