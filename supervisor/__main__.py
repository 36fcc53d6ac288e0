"""`supervisor`, and `python -P -m supervisor`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the exit code is documented in docs/reference/exit-codes.md."""
    from supervisor.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
