"""Activation: what a torn record makes it wait for, and how often."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from supervisor.adapters.codec import encode_entry
from supervisor.runtime.activation import activate
from supervisor.runtime.compose import from_environment
from supervisor.testing import make_entry


def test_a_torn_record_that_nobody_writes_anew_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPERVISOR_HOME", str(tmp_path / "state"))
    context = from_environment()
    context.prepare()
    torn = Path(context.places.matrix, f"{make_entry().key}.json")
    torn.write_bytes(encode_entry(make_entry())[:100])

    def seconds() -> float:
        began = time.monotonic()
        activate(context)
        return time.monotonic() - began

    first, second = seconds(), seconds()

    assert [path for path, _ in context.store.corrupt] == [str(torn)]
    assert second < first / 2
