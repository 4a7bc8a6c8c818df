"""mirror_comparison.py: what it passes on, and what it is told."""

from __future__ import annotations

import pytest

import mirror_comparison as program


def test_headers_of_the_router_stay_behind() -> None:
    """What the user's client said is passed on; what belongs to the connection or the router is not."""
    own = [("X-Tenant", "a"), ("Inference-Header-Content-Length", "5"), ("Content-Encoding", "gzip")]
    routers = [("Host", "h-shadow"), ("x-envoy-internal", "true"), ("X-Forwarded-For", "1"), (":path", "/")]
    assert program.passed_on([*own, *routers]) == own


@pytest.mark.parametrize(
    "wrong",
    [["--stable-url", "table:80"], ["--requests", "0"], ["--abs-tolerance", "nan"], ["--destination", "x"]],
)
def test_wrong_usage_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An argument that cannot be meant ends the program with exit code 2 and is named."""
    right = [
        "--model",
        "m",
        "--stable-url",
        "http://a",
        "--candidate-url",
        "http://b",
        "--destination",
        "s3://b/k",
    ]
    assert program.arguments(right).stable_host == "a"
    with pytest.raises(SystemExit, match="2"):
        program.arguments([*right, *wrong])
    assert wrong[0] in capsys.readouterr().err
