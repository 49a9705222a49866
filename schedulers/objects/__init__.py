"""API objects as both shells read them: small structs, and what they mean to the core. No I/O."""
