"""`python -m rm_emulator` is the `rm-emulator` command."""

from rm_emulator.cli import main

if __name__ == "__main__":
    main()
