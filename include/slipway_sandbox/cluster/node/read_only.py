"""Runs a command for which the whole file system is read-only but for some folders, as a container's root can be.

    read_only.py FOLDER … -- PROGRAM [ARG …]

By Landlock (Linux 5.13 and later), which needs no root; an older kernel runs the command without that limit.
Standard library only, and nothing of this repository: it is run by path, isolated.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS = 38
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PATH_BENEATH = 1
ABI_VERSION_FLAG = 1
# LANDLOCK_ACCESS_FS_*: WRITE_FILE, REMOVE_DIR, REMOVE_FILE, MAKE_CHAR … MAKE_SYM; then, by version, REFER and TRUNCATE.
WRITING = (1 << 1) | sum(1 << bit for bit in range(4, 13))
LATER = {2: 1 << 13, 3: 1 << 14}
# In a container these are mounts of their own, writable whatever the root is.
MOUNTED = ("/dev", "/proc")


def make_read_only(writable: list[str]) -> bool:
    """Take from this process, for good, all writing outside of `writable`; False if the kernel cannot do it.

    Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(ABI_VERSION_FLAG))
    if version < 1:
        return False
    rights = WRITING | sum(bits for least, bits in LATER.items() if version >= least)
    attributes = struct.pack("Q", rights)
    rules = _checked(libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(8), ctypes.c_uint32(0)))
    for path in (*MOUNTED, *writable):
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        beneath = struct.pack("=Qi", rights, folder)
        _checked(libc.syscall(ADD_RULE, rules, PATH_BENEATH, beneath, ctypes.c_uint32(0)))
        os.close(folder)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(RESTRICT_SELF, rules, ctypes.c_uint32(0)))
    os.close(rules)
    return True


def _checked(answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def main() -> None:
    """Run the program named on the command line in the place of this one."""
    place = sys.argv.index("--")
    make_read_only(sys.argv[1:place])
    command = sys.argv[place + 1 :]
    os.execv(command[0], command)  # noqa: S606 - to run what the pod says is what this program is for


if __name__ == "__main__":
    main()
