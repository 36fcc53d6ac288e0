"""Writing a new profile file for `profiles init`. Never overwrites; afterwards the file is its user's alone."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor.core.errors import BadInput, BadState, NotFound, Refused

if TYPE_CHECKING:
    from supervisor.runtime.compose import Context

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
_OWN_KEYS = re.compile(r"(schema|name|extends)\s*=")
_DEFAULT_BASE = "shell"


def folder_for(context: Context, place: str) -> str:
    """Where profiles of the user or of this project are.

    Raises:
        BadState: there is no home directory, or no working directory.
    """
    from supervisor.adapters.places import config_folder
    from supervisor.adapters.profile_files import PROJECT_FOLDER, is_git_root

    if place == "user":
        config = config_folder(context.env)
        if not config:
            raise BadState("there is no home directory for a profile", hint="Set HOME, or use --project")
        return os.path.join(config, "launch_profiles")
    if not context.cwd:
        raise BadState("the working directory is gone", hint="Go to the project's folder")
    at = Path(context.cwd)
    above = [at, *at.parents]
    root = next((n for n, folder in enumerate(above) if is_git_root(str(folder))), 0)
    places = [folder / PROJECT_FOLDER for folder in above[: root + 1]]
    return str(next((p for p in places if p.is_dir()), places[-1]))


def template(context: Context, name: str, base: str | None, *, place: str) -> str:
    """The text of a new profile.

    Raises:
        BadInput: no valid name. NotFound: there is no such profile to extend.
    """
    if not _NAME.match(name):
        raise BadInput(
            f"{name[:80]!r} is no profile name",
            hint="Use 1-64 lower-case letters, digits, '_' or '-', starting with a letter or digit",
        )
    bases = _bases(context, place)
    chosen = base or (name if name in bases else _DEFAULT_BASE)
    if chosen not in bases:
        raise NotFound(
            f"there is no profile {chosen!r} that {name} could extend", hint=f"There are: {', '.join(bases)}"
        )
    shown = [
        f"# {line}".rstrip()
        for line in Path(bases[chosen]).read_text(errors="replace").splitlines()
        if not _OWN_KEYS.match(line)
    ]
    return "\n".join(
        (
            f"# {name}: what it does not say comes from `{chosen}`. Tables merge key by key, everything else replaces.",
            f"# See the result: supervisor profiles show {name}. Check it: supervisor profiles check {name}.",
            "# All keys: supervisor profiles schema.",
            f'extends = "{chosen}"',
            "",
            f"# Uncomment what is to differ (keys above the first [table] stay above it). This is `{chosen}`:",
            *shown,
            "",
        )
    )


def _bases(context: Context, place: str) -> dict[str, str]:
    """Names that a file at `place` can extend (those behind it), and their files."""
    from supervisor.adapters.profile_files import shipped

    folders = [shipped()] if place == "user" else [shipped(), folder_for(context, "user")]
    paths = [path for folder in folders for path in sorted(Path(folder).glob("*.toml"))]
    return {path.stem: str(path) for path in paths if _NAME.match(path.stem)}


def create(folder: str, name: str, text: str, *, private: bool) -> str:
    """Write the file and return its path; `private`: 0600 in 0700 folders.

    Raises:
        Refused: it is there already, or cannot be written.
    """
    path = os.path.join(folder, f"{name}.toml")
    try:
        if private:
            os.makedirs(os.path.dirname(os.path.dirname(folder)), exist_ok=True)
            for at in (os.path.dirname(folder), folder):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(at, 0o700)
        else:
            os.makedirs(folder, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600 if private else 0o666)
    except FileExistsError:
        raise Refused(f"{path} is there already, it stays as it is", hint="Edit it, or choose another name") from None
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException:
        os.unlink(path)
        raise
    return path
