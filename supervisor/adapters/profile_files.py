"""Profiles as files: project over user over shipped, a whole file wins. Owns the trust file; never runs anything.

A project profile (from a cloned repository) is refused until its SHA-256 is trusted; a changed file is untrusted again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from supervisor.adapters.atomic_file import read_bounded, write_atomic
from supervisor.adapters.toml_files import convert, parse_toml, read_toml
from supervisor.core.errors import BadInput, NotFound, Refused
from supervisor.core.profile import PROFILE_SCHEMA, LaunchProfile, problems

Origin = Literal["shipped", "user", "project"]
PROJECT_FOLDER = os.path.join(".supervisor", "launch_profiles")


class Found(Struct, frozen=True, kw_only=True):
    """A profile file: where it is and whose, which others of its name it hides, and whether it may be used."""

    name: str
    origin: Origin
    path: str
    trusted: bool
    overrides: tuple[str, ...] = ()


class ProfileFiles:
    """Finds, reads and trusts profiles for one working directory."""

    def __init__(self, *, cwd: str, user: str, trust: str) -> None:
        self._cwd = cwd
        self._user = user
        self._trust = trust
        self._loaded: dict[str, LaunchProfile] = {}

    def all(self) -> list[Found]:
        """Every profile that a name leads to, in order of name."""
        by_name: dict[str, list[tuple[Origin, str]]] = {}
        for origin, folder in self._folders():
            for name in _profile_names(folder):
                by_name.setdefault(name, []).append((origin, os.path.join(folder, f"{name}.toml")))
        return [self._found(name, places) for name, places in sorted(by_name.items())]

    def find(self, name: str) -> Found:
        """The file that `name` leads to.

        Raises:
            NotFound: there is none; names those there are.
        """
        places = []
        if "/" not in name and name not in ("", ".", ".."):
            for origin, folder in self._folders():
                path = os.path.join(folder, f"{name}.toml")
                if folder and os.path.isfile(path):
                    places.append((origin, path))
        if not places:
            names = ", ".join(f.name for f in self.all())
            raise NotFound(f"there is no profile {name!r}", hint=f"There are: {names}")
        return self._found(name, places)

    def load(self, name: str) -> LaunchProfile:
        """The checked profile, read once.

        Raises:
            NotFound, Refused (untrusted), BadInput (with file and key).
        """
        if name in self._loaded:
            return self._loaded[name]
        found = self.find(name)
        data = _bytes(found.path)  # what is judged is what is used, whatever happens to the file meanwhile
        if found.origin == "project" and not self._is_trusted(found.path, data):
            raise Refused(
                f"profile {name} comes from the project ({found.path}) and is not trusted",
                hint=f"Read it, then run: supervisor profiles trust {name}",
            )
        self._loaded[name] = self.read(found, data)
        return self._loaded[name]

    def read(self, found: Found, data: bytes | None = None) -> LaunchProfile:
        """Parse and check one file (or its bytes), with its `extends` (one level).

        Raises:
            BadInput: names the file and the key.
        """
        table = parse_toml(_bytes(found.path) if data is None else data, found.path)
        base = table.pop("extends", None)
        if base is not None:
            table = _merge(self._base(base, found), table)
        table.setdefault("schema", PROFILE_SCHEMA)
        table.setdefault("name", found.name)
        profile = convert(table, LaunchProfile, path=found.path)
        wrong = next(problems(profile), None)
        if wrong:
            raise BadInput(f"{found.path}: {wrong}")
        if profile.name != found.name:
            raise BadInput(f"{found.path}: name is {profile.name!r}, the file's is {found.name!r}")
        return profile

    def known(self) -> Iterator[LaunchProfile]:
        """Every usable profile; broken and untrusted ones are left out."""
        for found in self.all():
            if found.trusted:
                try:
                    yield self.read(found)
                except (BadInput, NotFound):
                    continue

    def trust(self, name: str) -> Found:
        """Record the hash of a project profile as trusted.

        Raises:
            BadInput: the file is malformed. Refused: it needs no trust.
        """
        found = self.find(name)
        if found.origin != "project":
            raise Refused(f"profile {name} is {found.origin} ({found.path}), it needs no trust")
        data = _bytes(found.path)
        self.read(found, data)
        import tomli_w

        hashes = self._trusted()
        hashes[os.path.realpath(found.path)] = _digest(data)
        write_atomic(self._trust, tomli_w.dumps({"sha256": hashes}).encode(), durable=True)
        return self.find(name)

    def _base(self, base: Any, found: Found) -> dict[str, Any]:
        """The table that `extends` names: the next one of that name behind this file's own place, or another name's."""
        if not isinstance(base, str):
            raise BadInput(f"{found.path}: extends: is no profile name")
        weaker = {"project": ("user", "shipped"), "user": ("shipped",), "shipped": ("shipped",)}[found.origin]
        for origin, folder in self._folders():
            path = os.path.join(folder, f"{base}.toml")
            if origin in weaker and folder and path != found.path and os.path.isfile(path):
                table = read_toml(path)
                if "extends" in table:
                    raise BadInput(f"{found.path}: extends: {base} itself extends another profile (one level)")
                return {k: v for k, v in table.items() if k != "name"}
        raise BadInput(f"{found.path}: extends: there is no profile {base!r} to extend")

    def _folders(self) -> Iterator[tuple[Origin, str]]:
        project = self._project_folder()
        if project:
            yield "project", project
        if self._user:
            yield "user", os.path.join(self._user, "launch_profiles")
        yield "shipped", shipped()

    def _project_folder(self) -> str | None:
        """`.supervisor/launch_profiles`, from cwd up to the git root (or only cwd outside of one)."""
        at = self._cwd
        candidates = []
        while at:
            candidates.append(os.path.join(at, PROJECT_FOLDER))
            if is_git_root(at):
                break
            up = os.path.dirname(at)
            if up == at:
                candidates = candidates[:1]
                break
            at = up
        return next((c for c in candidates if os.path.isdir(c)), None)

    def _found(self, name: str, places: list[tuple[Origin, str]]) -> Found:
        (origin, path), *hidden = places
        trusted = origin != "project" or self._is_trusted(path, _bytes(path))
        return Found(name=name, origin=origin, path=path, trusted=trusted, overrides=tuple(p for _, p in hidden))

    def _is_trusted(self, path: str, data: bytes) -> bool:
        return self._trusted().get(os.path.realpath(path)) == _digest(data)

    def _trusted(self) -> dict[str, str]:
        try:
            table = read_toml(self._trust).get("sha256", {})
        except (NotFound, BadInput):
            return {}
        return {k: v for k, v in table.items() if isinstance(v, str)} if isinstance(table, dict) else {}


def is_git_root(folder: str) -> bool:
    """Whether a repository begins here: `.git` is a file (a worktree's) or holds HEAD. An empty folder is none."""
    git = os.path.join(folder, ".git")
    return os.path.isfile(git) or os.path.lexists(os.path.join(git, "HEAD"))


def shipped() -> str:
    """The folder of shipped profiles: beside the code when installed, at the top of a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "launch_profiles")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "launch_profiles")


def _profile_names(folder: str) -> list[str]:
    try:
        return sorted(n[:-5] for n in os.listdir(folder) if n.endswith(".toml")) if folder else []
    except OSError:
        return []


def _bytes(path: str) -> bytes:
    """The file; empty when it cannot be read (an empty profile is then refused as what it is)."""
    try:
        return read_bounded(path) or b""
    except OSError:
        return b""


def _digest(data: bytes) -> str:
    import hashlib  # only project profiles need it

    return hashlib.sha256(data).hexdigest()


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Tables merge key by key, everything else replaces."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        out[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return out
