"""`supervisor`, and `python -P -m supervisor`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; the exit code is documented in docs/reference/exit-codes.md."""
    words = sys.argv[1:]
    if words[:1] in (["launch"], ["resume"]):
        from supervisor.adapters.own_process import mend_streams
        from supervisor.runtime.seed import plant_for

        mend_streams()
        plant_for(words)  # before the command line is loaded: a keeper outlives it by hours, and is lighter without it

    from supervisor.cli.main import run

    code = run(words)
    gc.freeze()  # the end frees everything: a last search for cycles would take longer than the rest of it
    sys.exit(code)


if __name__ == "__main__":
    main()
