"""Transcripts, session files and proofs in memory, as a keeper sees them. Owns their content."""

from __future__ import annotations

from collections.abc import Mapping


class MemoryTranscripts:
    """Transcripts by path: a test writes to `content`, or removes from it."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.free = 1 << 40

    def path(self, entry_id: str) -> str:
        """The transcript of one entry."""
        return f"/transcripts/{entry_id}.log"

    def create(self, path: str) -> None:
        """An empty transcript; an existing one is kept."""
        self.content.setdefault(path, b"")

    def size(self, path: str) -> int | None:
        """Bytes, None when removed."""
        return len(self.content[path]) if path in self.content else None

    def head(self, path: str, start: int = 0) -> bytes:
        """The first bytes from `start` on; empty when there is none."""
        return self.content.get(path, b"")[start:]

    def tail(self, path: str) -> bytes:
        """The last bytes; empty when there is none."""
        return self.content.get(path, b"")

    def cap(self, path: str, limit: int) -> bool:
        """Keep the newer half of one over `limit` bytes."""
        if len(self.content[path]) <= limit:
            return False
        self.content[path] = self.content[path][-(limit // 2) :]
        return True

    def append(self, path: str, line: str) -> None:
        """A line of ours, on a line of its own."""
        self.content[path] += f"\n[supervisor: {line}]\n".encode()

    def free_bytes(self) -> int:
        """What the disk still takes."""
        return self.free

    def remove(self, entry_id: str) -> None:
        """Its entry is removed, so is the transcript."""
        self.content.pop(self.path(entry_id), None)


class FakeSessionFiles:
    """Session files by pattern: those in `there` exist, last written when `modified` says (epoch ms)."""

    def __init__(self) -> None:
        self.there: dict[str, str] = {}
        self.modified: dict[str, int] = {}

    def find(self, patterns: tuple[str, ...], env: Mapping[str, str], session: str | None) -> str | None:
        """The first pattern that leads to a file."""
        named = [p.replace("{session_id}", session or "") for p in patterns]
        return next((self.there[p] for p in named if p in self.there), None)

    def modified_ms(self, path: str) -> int:
        """When it was last written; 0 when it is gone."""
        return self.modified.get(path, 1 if path in self.there.values() else 0)


class MemoryProofs:
    """Proofs by entry id: a test writes to `content`."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def stirred(self) -> bool:
        """Always perhaps."""
        return True

    def stamp(self, entry_id: str) -> int:
        """Changes with the content; 0 when there is none."""
        return hash(self.content[entry_id]) or 1 if entry_id in self.content else 0

    def read(self, entry_id: str) -> bytes:
        """The proof; empty when there is none."""
        return self.content.get(entry_id, b"")

    def remove(self, entry_id: str) -> None:
        """Its entry is removed, so is the proof."""
        self.content.pop(entry_id, None)
