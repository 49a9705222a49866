"""The settings of published papers, run and set beside their tables; each module is a command."""
