"""`hive`, the command: what is imported first is little, so that Ctrl-C has an answer from the beginning."""

import gc
import sys


def main() -> None:
    """Run the command of the arguments, and exit with its code; 130 where Ctrl-C comes while it is being imported."""
    # Imports make objects by the hundred thousand, all of which stay; looking for garbage among them takes a tenth of
    # a command's time. When the interpreter ends it is looked for all the same: what closes a database is in it.
    gc.set_threshold(50_000, 20, 20)
    try:
        from hive_agents.cli import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
