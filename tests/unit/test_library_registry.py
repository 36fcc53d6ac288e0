"""The process-global registries: one object for every copy of the package, and marks that only their token removes."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import supervisor.core
from supervisor.library import registry

PACKAGE = Path(supervisor.core.__path__[0]).parent


def second_copy(name: str) -> ModuleType:
    """The same source, imported under another package name."""
    spec = importlib.util.spec_from_file_location(
        name, PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return importlib.import_module(f"{name}.library.registry")


def test_a_child_is_found_under_its_own_session_id() -> None:
    token = registry.add_child("child-1", "parent-1")
    assert (registry.parent_of("child-1"), registry.parent_of("parent-1")) == ("parent-1", None)
    registry.remove_child("child-1", token)
    assert registry.parent_of("child-1") is None


def test_a_reloaded_registry_finds_the_marks() -> None:
    child, serving = registry.add_child("child-2", "parent-2"), registry.mark_serving("parent-2")
    importlib.reload(registry)
    assert (registry.parent_of("child-2"), registry.is_serving("parent-2")) == ("parent-2", True)
    registry.remove_child("child-2", child)
    registry.unmark_serving("parent-2", serving)
    assert (registry.parent_of("child-2"), registry.is_serving("parent-2")) == (None, False)


def test_a_second_copy_under_another_name_shares_both_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("other_supervisor", "other_supervisor.library", "other_supervisor.library.registry"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # taken away again at the end
    for name in ("other_supervisor.library", "other_supervisor.library.registry"):
        del sys.modules[name]
    other = second_copy("other_supervisor")
    assert other is not registry
    token = other.mark_serving("parent-3")
    child = registry.add_child("child-3", "parent-3")
    assert (registry.is_serving("parent-3"), other.parent_of("child-3")) == (True, "parent-3")
    registry.unmark_serving("parent-3", token)
    other.remove_child("child-3", child)
    assert (other.is_serving("parent-3"), registry.parent_of("child-3")) == (False, None)


def test_one_end_leaves_the_marks_of_others() -> None:
    first, second = registry.mark_serving("parent-4"), registry.mark_serving("parent-4")
    sibling = registry.add_child("child-5", "parent-4")
    child = registry.add_child("child-4", "parent-4")
    registry.unmark_serving("parent-4", first)
    registry.unmark_serving("parent-4", first)
    registry.remove_child("child-4", child)
    registry.remove_child("child-5", object())
    assert (registry.is_serving("parent-4"), registry.children_of("parent-4")) == (True, ["child-5"])
    registry.unmark_serving("parent-4", second)
    registry.remove_child("child-5", sibling)
    assert (registry.is_serving("parent-4"), registry.children_of("parent-4")) == (False, [])


def test_the_public_names_cost_nothing_until_used() -> None:
    script = (
        "import sys, supervisor; assert not any(m.startswith('supervisor.') for m in sys.modules); "
        "from supervisor import join, Session, Decision; "
        "assert {'join', 'Session', 'Decision'} <= set(dir(supervisor)); "
        "assert not {'loguru', 'click', 'rich', 'watchdog'} & set(sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_unknown_public_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError):
        supervisor.nothing_of_that_name  # noqa: B018
