"""How long an ask has waited: by the machine's monotonic clock where its writer gave it. Pure, standard library only.

The wall clock serves only for what other programs wrote, and only until it is first seen: then `stamped` fixes the age.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor.core.ask_wire import Request
from supervisor.core.serving import Here
from supervisor.core.timing import MS


def asked(here: Here, *, age_ms: int = 0) -> dict[str, Any]:
    """What a request carries as `supervisor.asked`: when it was written (monotonic ns), and in which boot."""
    return {"bootId": here.boot_id, "monotonicNs": here.monotonic_ns - age_ms * MS}


def age_ms(request: Request, here: Here) -> int:
    """How old a request is; one that claims to come from the future is new."""
    since = _since(request, here)
    if since is not None:
        return (here.monotonic_ns - since) // MS
    return max(here.wall_ms - request.created_at, 0)


def stamped(request: Request, here: Here) -> Request:
    """The same request, aged by the monotonic clock from now on: a step of the wall clock changes it no more."""
    if _since(request, here) is not None:
        return request
    return request._replace(ours={**request.ours, "asked": asked(here, age_ms=age_ms(request, here))})


def _since(request: Request, here: Here) -> int | None:
    """Monotonic ns of this boot; None when there is none to go by. A time that is still to come is no evidence."""
    when = request.ours.get("asked")
    if not isinstance(when, Mapping) or not here.boot_id or when.get("bootId") != here.boot_id:
        return None
    since = when.get("monotonicNs")
    if isinstance(since, bool) or not isinstance(since, int) or since > here.monotonic_ns:
        return None
    return since
