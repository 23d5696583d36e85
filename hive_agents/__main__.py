"""`hive`, the command: what is imported first is little, so that Ctrl-C has an answer from the beginning."""

import sys


def main() -> None:
    """Run the command of the arguments, and exit with its code; 130 where Ctrl-C comes while it is being imported."""
    try:
        from hive_agents.cli import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
