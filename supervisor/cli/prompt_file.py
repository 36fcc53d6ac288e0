"""A prompt that is read from a file or from standard input. Owns nothing."""

from __future__ import annotations

import sys


def read_prompt(path: str) -> bytes:
    """The prompt in a file, `-` for standard input.

    Raises:
        BadInput: unreadable or too long.
    """
    from supervisor.core.errors import BadInput
    from supervisor.runtime.agent_request import MAX_PROMPT_BYTES

    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_PROMPT_BYTES + 1)
    except OSError as error:
        raise BadInput(f"--prompt-file {path}: {error.strerror}") from None
    if len(data) > MAX_PROMPT_BYTES:
        raise BadInput(f"--prompt-file {path}: longer than {MAX_PROMPT_BYTES} bytes")
    return data
