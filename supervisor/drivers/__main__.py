"""`python -P -m supervisor.drivers KIND -- ARGV…`: one agent whose CLI is spoken to by a protocol."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Drive, and end at once: threads that still listen have nothing to say."""
    from supervisor.drivers.run import run

    code = run(sys.argv[1:], env=os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
