"""Makes perf_analyzer of tritonclient's wheel runnable in the environment of the Python that runs this.

The binary wants `libb64.so.0d` and `libcudart.so.12`, which Debian has under other names or not at all;
nvidia-pytriton's wheel brings both under names of its own. The binary is moved aside, the two libraries are
linked next to it, and a small wrapper named `perf_analyzer` takes its place on PATH. Running this twice
changes nothing.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

LIBRARIES = {"libb64.so.0d": "libb64-*.so.0d", "libcudart.so.12": "libcudart-*.so.12*"}

WRAPPER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")/../lib/perf_analyzer
LD_LIBRARY_PATH="$here${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/perf_analyzer" "$@"
"""


def place(environment: Path, site_packages: Path) -> Path:
    """Returns the wrapper's path; raises SystemExit when a wheel does not hold what it should."""
    wrapper = environment / "bin" / "perf_analyzer"
    home = environment / "lib" / "perf_analyzer"
    home.mkdir(parents=True, exist_ok=True)
    for name, pattern in LIBRARIES.items():
        found = sorted((site_packages / "nvidia_pytriton.libs").glob(pattern))
        if len(found) != 1:
            raise SystemExit(
                f"place_perf_analyzer: expected one {pattern} in nvidia_pytriton.libs; found {len(found)}. "
                "Pin nvidia-pytriton to the version that requirements.in names."
            )
        link = home / name
        link.unlink(missing_ok=True)
        link.symlink_to(found[0])
    if not (home / "perf_analyzer").exists():
        if not wrapper.exists():
            raise SystemExit(
                f"place_perf_analyzer: expected the binary {wrapper}; found none. "
                "Pin tritonclient to 2.51.0: later wheels carry no perf_analyzer."
            )
        wrapper.rename(home / "perf_analyzer")
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    return wrapper


def main() -> None:
    """Runs the program; returns its exit code."""
    wrapper = place(Path(sys.prefix), Path(sysconfig.get_path("platlib")))
    subprocess.run([wrapper, "--version"], check=True, timeout=60)


if __name__ == "__main__":
    main()
