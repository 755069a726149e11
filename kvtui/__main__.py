"""``python -m kvtui`` and the ``kvtui`` command."""

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    from kvtui.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
