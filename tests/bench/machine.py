"""The machine a bench run saw: what it is, how loaded, and a wait for a quiet moment. Reads only."""

from __future__ import annotations

import os
import platform
import time

from tests.bench.procs import read

_BUSY = 0.08
"""Below this share of all processors in use by anybody, a moment counts as quiet."""


def facts(folder: str) -> dict[str, str]:
    """Cores, processor, memory, kernel, file system of the records, this Python."""
    info = read("/proc/cpuinfo").decode(errors="replace").splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), "?")
    memory = read("/proc/meminfo").split()
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": model,
        "memory": f"{int(memory[1]) / 2**20:.1f} GiB" if len(memory) > 1 else "?",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": file_system(folder),
        "python": platform.python_version(),
    }


def file_system(folder: str) -> str:
    """The type of the file system that holds `folder`."""
    best, kind = "", "?"
    for line in read("/proc/mounts").decode(errors="replace").splitlines():
        _, point, found, *_ = line.split()
        if len(point) >= len(best) and (folder + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, found
    return kind


def load() -> str:
    """The load averages."""
    return " ".join(f"{x:.2f}" for x in os.getloadavg())


def _ticks() -> tuple[int, int]:
    numbers = [int(n) for n in read("/proc/stat").split(b"\n", 1)[0].split()[1:9]]
    return sum(numbers), numbers[3] + numbers[4]


def busy(seconds: float = 0.2) -> float:
    """The share of all processors in use over the next moment."""
    total, idle = _ticks()
    time.sleep(seconds)
    total2, idle2 = _ticks()
    return 1 - (idle2 - idle) / max(total2 - total, 1)


class Quiet:
    """Waits for quiet moments before measuring, within a patience; counts those that never came."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.loud = 0
        self.asked = 0

    def wait(self) -> bool:
        """Whether the machine was quiet in the end."""
        self.asked += 1
        deadline = time.monotonic() + self._patience
        while busy() > _BUSY:
            if time.monotonic() >= deadline:
                self.loud += 1
                return False
        return True
