"""Whether the servers of a fleet serve the same."""

from __future__ import annotations

from slipway_core.fleet.parity import ServerReport, parity_of


def report(server: str, version: int | None = 7, config: str = "a" * 64, **fields: object) -> ServerReport:
    """Return what a server says."""
    return ServerReport.model_validate(
        {"server": server, "version": version, "config_sha256": config, "manifest_sha256": "m" * 64, **fields}
    )


def test_servers_that_are_alike_agree() -> None:
    """The same version, configuration and manifest on all, which is the fleet's version."""
    parity = parity_of("edge", "digits", 7, [report("a"), report("b")])
    assert parity.agree
    assert parity.differences == ()


def test_every_difference_is_named() -> None:
    """Another version, another configuration, another manifest, and one that says nothing."""
    reports = [
        report("a"),
        report("b"),
        report("c", version=6),
        report("d", config="b" * 64),
        report("e", manifest_sha256="n" * 64),
        ServerReport(server="f", problem="no answer"),
        report("g", version=None, config=""),
    ]
    parity = parity_of("edge", "digits", 7, reports)
    assert not parity.agree
    assert parity.differences == (
        "f: no answer",
        "c serves version 6, the fleet's version is 7",
        "g serves nothing, the fleet's version is 7",
        "d has the configuration bbbbbbbbbbbb, others have aaaaaaaaaaaa",
        "e has the manifest nnnnnnnnnnnn, others have mmmmmmmmmmmm",
    )


def test_fleet_without_a_release_is_compared_with_itself() -> None:
    """Where nothing was released yet, the servers must still be alike."""
    assert parity_of("edge", "digits", None, [report("a"), report("b")]).agree
    assert not parity_of("edge", "digits", None, [report("a"), report("b", version=6)]).agree
    assert parity_of("edge", "digits", None, []).differences == ("the fleet has no server",)


def test_servers_that_are_alike_and_not_the_fleet_s_differ_from_it() -> None:
    """Where all have the version's number, and none was told to serve its manifest, that is no agreement."""
    reports = [report("a", manifest_sha256=""), report("b", manifest_sha256="")]
    parity = parity_of("edge", "digits", 7, reports, manifest_sha256="m" * 64)
    assert parity.differences == (
        "a was given the manifest none, the fleet's is mmmmmmmmmmmm",
        "b was given the manifest none, the fleet's is mmmmmmmmmmmm",
    )
    assert parity_of("edge", "digits", 7, [report("a")], manifest_sha256="m" * 64).agree


def test_what_is_loaded_without_need_is_named_and_is_no_difference() -> None:
    """Servers that serve the same agree, also where one still has the version before loaded."""
    parity = parity_of("edge", "digits", 7, [report("a"), report("b", leftovers=("digits_v6",))])
    assert parity.agree
    assert parity.leftovers == ("b has digits_v6 loaded as well",)
