"""The house rules that a machine can check: names, layers, sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import supervisor.core

PACKAGE = Path(supervisor.core.__path__[0]).parent
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if "launch_profiles" not in p.parts)
CORE = sorted((PACKAGE / "core").glob("*.py"))
TESTING = sorted((PACKAGE / "testing").glob("*.py"))
MAX_MODULE, MAX_FUNCTION = 400, 60

SUPERVISORD = frozenset(
    (
        "childutils",
        "compat",
        "confecho",
        "datatypes",
        "dispatchers",
        "events",
        "http",
        "http_client",
        "loggers",
        "medusa",
        "options",
        "pidproxy",
        "poller",
        "process",
        "rpcinterface",
        "scripts",
        "skel",
        "socket_manager",
        "states",
        "supervisorctl",
        "supervisord",
        "templating",
        "tests",
        "ui",
        "web",
        "xmlrpc",
    )
)
"""Modules of supervisord, which installs into the same package: a name of ours among them would break it, or us."""

PURE = frozenset(
    {
        "__future__",
        "collections",
        "dataclasses",
        "enum",
        "errno",
        "fnmatch",
        "functools",
        "itertools",
        "json",
        "shlex",
        "math",
        "msgspec",
        "re",
        "supervisor",
        "typing",
    }
)
"""What core may import: nothing of it can read a clock, the environment, a file or a process."""

IO_BUILTINS = frozenset({"open", "print", "input", "exec", "eval", "__import__", "breakpoint"})


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "." * node.level


def ours(path: Path) -> list[str]:
    return [i for i in imports(path) if i.partition(".")[0] == "supervisor"]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and number of lines of each."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_top_level_module_bears_a_name_of_supervisord() -> None:
    tops = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p.is_dir() and p.name != "__pycache__")}
    assert set() == tops & SUPERVISORD


def test_core_imports_nothing_that_could_do_io() -> None:
    assert [(name_of(p), i) for p in CORE for i in imports(p) if i.partition(".")[0] not in PURE] == []


def test_core_imports_only_core_of_ours() -> None:
    assert [(name_of(p), i) for p in CORE for i in ours(p) if not i.startswith("supervisor.core.")] == []


def test_core_calls_no_builtin_that_does_io() -> None:
    names = [(name_of(p), n.id) for p in CORE for n in ast.walk(tree_of(p)) if isinstance(n, ast.Name)]
    assert [(path, name) for path, name in names if name in IO_BUILTINS] == []


def test_the_fakes_know_only_core() -> None:
    allowed = ("supervisor.core.", "supervisor.testing.")
    assert [(name_of(p), i) for p in TESTING for i in ours(p) if not i.startswith(allowed)] == []


def test_every_module_is_read_in_one_sitting() -> None:
    sizes = {name_of(p): len(p.read_text().splitlines()) for p in MODULES}
    assert {name: size for name, size in sizes.items() if size > MAX_MODULE} == {}


def test_every_function_fits_on_a_screen() -> None:
    sizes = {f"{name_of(p)}:{name}": size for p in MODULES for name, size in functions(p)}
    assert {name: size for name, size in sizes.items() if size > MAX_FUNCTION} == {}


def test_every_module_says_what_it_is_for() -> None:
    assert [name_of(p) for p in MODULES if (tree := tree_of(p)).body and not ast.get_docstring(tree)] == []
