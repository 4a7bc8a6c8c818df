"""The programs that run containers: those of the machine's packages, or else built here from Go modules."""

from __future__ import annotations

import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.conformance.build import CNI, CONTAINERD, PAUSE, RUNC, Built, build

CNI_PLUGINS = Path("/usr/lib/cni")
PLUGINS = ("bridge", "host-local", "loopback")
_INSTALLED = ("containerd", "ctr", "runc", "catatonit")
WITHOUT_SECCOMP = Path(__file__).with_name("runc_without_seccomp.py")


@dataclass(frozen=True)
class RuntimePrograms:
    """Where they lie.

    :param plugins: the folder of the network's plugins.
    :param first: the command of a first process, which takes over what is orphaned.
    :param has_seccomp: whether runc filters system calls as pods ask it to.
    """

    containerd: Path
    ctr: Path
    runc: Path
    plugins: Path
    first: tuple[str, ...]
    has_seccomp: bool


def installed_programs() -> RuntimePrograms | None:
    """Return those of the machine's packages; None where one is missing."""
    found = {name: shutil.which(name) for name in _INSTALLED}
    if None in found.values() or not all((CNI_PLUGINS / name).is_file() for name in PLUGINS):
        return None
    containerd, ctr, runc, catatonit = (Path(str(found[name])) for name in _INSTALLED)
    return RuntimePrograms(containerd, ctr, runc, CNI_PLUGINS, (str(catatonit), "-P"), has_seccomp=True)


def built_programs(folder: Path) -> RuntimePrograms:
    """Return those that are built from Go modules, built first where they are missing.

    runc is built without libseccomp, whose headers few machines have. It then refuses every container with a filter of
    system calls, so it is called through a program that leaves the filter out.

    :param folder: gets that program.
    :raises BuildError: Go or a C compiler is missing, or a build failed.
    """
    containerd, runc, cni, pause = (build(one) for one in (CONTAINERD, RUNC, CNI, PAUSE))
    return RuntimePrograms(
        containerd.programs["containerd"],
        containerd.programs["ctr"],
        _without_seccomp(runc, folder),
        cni.programs["bridge"].parent,
        (str(pause.programs["pause"]),),
        has_seccomp=False,
    )


def _without_seccomp(runc: Built, folder: Path) -> Path:
    program = folder / "runc"
    lines = (
        "#!/bin/sh",
        f'exec "{sys.executable}" -I -S "{WITHOUT_SECCOMP}" "{runc.programs["runc"]}" "$@"',
    )
    program.write_text("\n".join((*lines, "")), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program
