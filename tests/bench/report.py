"""What is measured, what it must be, and the one table of it. Pure: values in, text out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

OURS = "ours"


@dataclass(frozen=True)
class Measure:
    """One row. `must` bounds `stat` of the samples: at most (or exactly, where `exact`); None: for information."""

    name: str
    title: str
    unit: str
    must: float | None = None
    stat: str = "median"
    exact: bool = False


MEASURES: tuple[Measure, ...] = (
    Measure("up100", "`up` of 100: issued → returned, records durable", "s", 0.25),
    Measure("up100run", "— issued → all 100 run (to the tick of 10 ms)", "s"),
    Measure("up500", "`up` of 500: issued → returned, records durable", "s", 1.2),
    Measure("up500run", "— issued → all 500 run (to the tick of 10 ms)", "s"),
    Measure("idle", "idle CPU of our side over 20 s, N = 100", "s", 0.02),
    Measure("idletree", "— the same, of one lead with 99 children", "s"),
    Measure("pss", "PSS of our side, N = 100", "MB", 20),
    Measure("rss", "— RSS of the same", "MB"),
    Measure("restart", "SIGKILL of an agent → replacement exec'd", "ms", 10),
    Measure("ps", "`ps --json` (peers: status), N = 100", "ms", 90),
    Measure("down", "`down`: issued → 0 agents and returned, N = 100", "ms", 150),
    Measure("alive", "kill -9 of the keeper, then `reconcile`: alive", "n", 100, "min", exact=True),
    Measure("doubled", "— doubled", "n", 0, "max", exact=True),
    Measure("reattached", "— re-attached within", "s", 1.0, "max"),
    Measure("lost", "SIGKILL of a parent and its keeper → its worker's `winding_down` on disk", "ms", 20),
    Measure("lostkept", "— SIGKILL of the parent alone, its keeper records the end first", "ms"),
    Measure("recoverfirst", "`recover` of 100 orphans: issued → the first is told of", "s", 1.5, "max"),
    Measure("readopted", "`resume` of their parent: issued → all 100 are its running children again", "s", 3.0, "max"),
    Measure("help", "`--help`, CPU, min of 15", "ms", 60, "min"),
    Measure("ps200", "`ps` of 200 live entries, CPU, min of 15", "ms", 80, "min"),
    Measure("python", "— `python -c pass`, CPU, min of 15", "ms", None, "min"),
    Measure("ps1000", "`ps --json`, 1,000 live entries, wall", "s", 0.15),
    Measure("ps10000", "`ps --json`, 10,000 live entries, wall", "s", 0.6),
    Measure("all10000", "— `ps --all --json`, 10,000 of which 9,900 ended", "s"),
    Measure("replace", "conditional replace, file + directory fsync, p50", "ms", 1.2),
    Measure("floor", "— bare write, fsync, rename, directory fsync", "ms"),
    Measure("launch", "`launch --detach shell -- sleep 60` (peers: start of 1)", "s", 0.15),
    Measure("launchpss", "— PSS of its keeper alone", "MB", 12),
    Measure("launchrss", "— RSS of the same", "MB"),
    Measure("launchold", "— the launch beside 1,000 ended entries", "s"),
    Measure("launchpssold", "— PSS of its keeper", "MB"),
    Measure("askrule", "ask → a rule decides at the keeper → answer, p50", "ms", 3),
    Measure("askrule99", "— p99", "ms", 15),
    Measure("hookrule", "a whole `supervisor-hook claude`, a rule decides", "ms", 90),
    Measure("never", "ask of nobody: refused after", "s", 2.15, "max"),
    Measure("killed", "parent and keeper killed amid an ask: refused after", "s", 2.15, "max"),
    Measure("zombie", "— the same, left as a zombie", "s", 2.15, "max"),
    Measure("stopped", "keeper stopped amid an ask: refused after", "s", 7.2, "max"),
    Measure("lost200", "8 children × 25 asks: outcomes other than the decision", "n", 0, "max", exact=True),
    Measure("lost10000", "10,000 asks in sequence: the same", "n", 0, "max", exact=True),
    Measure("pending", "`asks` with 10,000 that wait: newest shown after", "s", 1.0, "max"),
    Measure("pendingrule", "— an ask that a rule decides beside them, p50", "ms"),
    Measure("meanwhile", "20 s at one ask: a second one answered meanwhile", "n", 1, "min", exact=True),
)
BY_NAME = {m.name: m for m in MEASURES}


class Sample(NamedTuple):
    """One figure, and whether the machine was quiet when it was taken."""

    value: float
    quiet: bool


ENOUGH = 3
"""With so many samples from quiet moments the others do not count."""


@dataclass
class Results:
    """Samples by (measure, who); notes of what went wrong, each of which fails the run. `quiet`: of what comes next."""

    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    words: dict[tuple[str, str], str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    quiet: bool = True

    def add(self, name: str, values: float | Iterable[float], who: str = OURS) -> None:
        """Samples in the unit of the measure."""
        more = [float(values)] if isinstance(values, int | float) else [float(v) for v in values]
        self.samples.setdefault((BY_NAME[name].name, who), []).extend(Sample(v, self.quiet) for v in more)

    def say(self, name: str, text: str, who: str) -> None:
        """A word in place of samples."""
        self.words[BY_NAME[name].name, who] = text

    def figures(self, name: str, who: str = OURS) -> tuple[list[float], bool]:
        """What counts, and whether it was taken in quiet."""
        found = self.samples.get((name, who), [])
        quiet = [s.value for s in found if s.quiet]
        if len(quiet) >= ENOUGH or len(quiet) == len(found):
            return quiet, True
        return [s.value for s in found], False

    def value(self, name: str, who: str = OURS) -> float | None:
        """The figure that is compared."""
        found, _ = self.figures(name, who)
        if not found:
            return None
        stat = BY_NAME[name].stat
        return statistics.median(found) if stat == "median" else min(found) if stat == "min" else max(found)

    def verdict(self, measure: Measure) -> str:
        """`yes`, `NO`, or nothing where nothing is demanded or was measured."""
        value = self.value(measure.name)
        if measure.must is None or value is None:
            return ""
        good = value == measure.must if measure.exact else value <= measure.must
        return "yes" if good else "NO"

    def missed(self) -> list[str]:
        """Every must that was missed, then every problem, for people."""
        out = []
        for measure in MEASURES:
            value = self.value(measure.name)
            if value is not None and self.verdict(measure) == "NO":
                must = "exactly" if measure.exact else "at most"
                found = f"{number(value, measure.unit)} {unit(measure)}".strip()
                loud = "" if self.figures(measure.name)[1] else " (the machine was not quiet)"
                out.append(f"{measure.name}: {found}, must be {must} {measure.must:g}{loud}")
        return out + self.problems


def unit(measure: Measure) -> str:
    """The unit as printed; counts have none."""
    return "" if measure.unit == "n" else measure.unit


def number(value: float, kind: str) -> str:
    """Three digits or so."""
    if kind == "n":
        return f"{value:.0f}"
    return f"{value:.3f}" if kind == "s" else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def cell(results: Results, measure: Measure, who: str) -> str:
    """One figure: value (min–max); with ~ before it when the machine was not quiet."""
    found, quiet = results.figures(measure.name, who)
    if not found:
        return results.words.get((measure.name, who), "–")
    value = results.value(measure.name, who)
    assert value is not None
    text = ("" if quiet else "~") + number(value, measure.unit)
    if len(found) > 1 and min(found) != max(found):
        text += f" ({number(min(found), measure.unit)}–{number(max(found), measure.unit)})"
    return text


def table(results: Results, names: Sequence[str], peers: Mapping[str, str]) -> str:
    """The table. `peers`: version of each, `not installed` where there is none; those left out were not asked for."""
    rows = [
        ["measure", "unit", "must", "ours median (min–max)", *(f"{p} {v}".strip() for p, v in peers.items()), "ok?"]
    ]
    for measure in (m for m in MEASURES if m.name in names):
        must = "" if measure.must is None else ("= " if measure.exact else "≤ ") + f"{measure.must:g}"
        cells = [cell(results, measure, who) for who in (OURS, *peers)]
        rows.append([measure.title, unit(measure), must, *cells, results.verdict(measure)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [" | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-|-".join("-" * width for width in widths), *lines[1:]])
