"""Contract tests of what is kept in the object store, against real S3 servers in place of moto.

    python -m tests.support.store.lane [SERVER …] [-- pytest's arguments]

installs SeaweedFS, builds VersityGW where there is Go, and runs `LANE` against each: publishing, record, lock, pins,
freezes, outbox, and what admission asks. Where a server is absent its tests say so and are skipped; with CI=true
the absence of SeaweedFS is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.conformance.build import VERSITYGW, BuildError, build
from tests.support.store.real_servers import SERVERS, install_seaweedfs

PLUGINS = "tests/contract/plugins"
LANE = (
    "hooks/test_store.py",
    "hooks/test_store_guarantees.py::test_a_store_that_keeps_all_of_it_is_asked_once_and_left_clean",
    "hooks/test_store_guarantees.py::test_of_many_creators_at_once_one_wins",
    "release_record/test_lock.py",
    "release_record/test_record.py",
    "registry/test_publisher.py",
    "registry/test_deletion.py",
    "operators/operations/test_pin.py",
    "operators/operations/test_release_freeze.py",
    "operators/admission/test_notices.py",
)
# It stops a store of its own, moto's, and waits for it.
OF_ANOTHER_STORE = "release_record/test_lock.py::test_who_waits_does_not_hang_with_the_store"
_COUNTED = "a copy has no digest in its answer, so requests are counted otherwise"
_KEYS = "it has no keys to encrypt with"
_FOLDERS = "it takes no object with content whose key ends with a slash"
_VERSIONS = "it keeps versions only when it is started so"
DIFFERENCES = {
    "seaweedfs": {
        "test_what_is_there_is_not_copied_again": _COUNTED,
        "test_file_that_came_in_parts_is_copied_once_and_never_read": "a copy of an object in parts keeps their digest",
        "test_encryption_as_the_release_file_says": _KEYS,
    },
    "versitygw": {
        "test_strays_are_skipped_and_named": _FOLDERS,
        "test_a_folder_with_nothing_but_strays_was_not_started": _FOLDERS,
        "test_file_that_came_in_parts_is_copied_once_and_never_read": _VERSIONS,
        "test_other_parts_than_were_written_are_refused": _VERSIONS,
        "test_bucket_with_versions": _VERSIONS,
        "test_encryption_as_the_release_file_says": _KEYS,
    },
}
"""Tests of `LANE` that ask for what a server does otherwise, harmlessly: docs/cluster.md names it."""


def main(arguments: Sequence[str]) -> int:
    """Run the lane; return the first exit code that is not 0."""
    names = [one for one in arguments if one in SERVERS]
    more = [one for one in arguments if one not in SERVERS and one != "--"]
    code = 0
    for name in names or SERVERS:
        if name == "seaweedfs":
            install_seaweedfs()
        else:
            try:
                build(VERSITYGW)
            except BuildError as error:
                print(f"VersityGW cannot be built. {error}", file=sys.stderr)
        print(f"── {name}", flush=True)
        environment = {**os.environ, "SLIPWAY_TEST_STORE": name}
        command = [sys.executable, "-m", "pytest", "-q", *(f"{PLUGINS}/{one}" for one in LANE)]
        command += [f"--deselect={PLUGINS}/{OF_ANOTHER_STORE}", *more]
        code = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, check=False).returncode or code
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
