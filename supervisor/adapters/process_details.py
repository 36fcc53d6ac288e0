"""More about a process than its identity: whose it is, where it works, which file it runs. Never signals."""

from __future__ import annotations

from msgspec import Struct


class Details(Struct, frozen=True):
    """Of one process; None where it is gone, or another user's and unreadable."""

    uid: int | None
    cwd: str | None
    program: str | None
    on_terminal: bool


def details(pid: int) -> Details:
    """What the system tells now. The caller verifies the identity before and after."""
    import psutil

    try:
        seen = psutil.Process(pid).as_dict(attrs=["uids", "cwd", "exe", "terminal"], ad_value=None)
    except (psutil.Error, ValueError, OverflowError):
        return Details(None, None, None, False)
    uids = seen["uids"]
    return Details(uids.real if uids else None, seen["cwd"] or None, seen["exe"] or None, seen["terminal"] is not None)
