"""Who counts as a person, and as another one."""

from __future__ import annotations

import pytest

from slipway_core.errors import UserError
from slipway_core.four_eyes import (
    are_two_people,
    canonical_name,
    is_other_person,
    is_same_person,
    require_other_person,
    require_person,
)


def test_another_person_is_known_and_none_of_the_others() -> None:
    """An event or a schedule is nobody: it makes no second person, and it is in nobody's way."""
    assert is_other_person("carol", ("alice", "bob"))
    assert is_other_person("carol", ())
    assert is_other_person("carol", (None, ""))
    assert not is_other_person("bob", ("alice", "bob"))
    for nobody in (None, ""):
        assert not is_other_person(nobody, ("alice",))
        assert not is_other_person(nobody, ())


def test_who_may_not_is_told_what_to_do() -> None:
    """The message names the person, who else must, and what was decided already."""
    assert require_person("bob") == "bob"
    asked = {"may": "override this freeze", "than": "its author", "found": "frozen by bob"}
    assert require_other_person("carol", ("bob", None), **asked) == "carol"
    for who, words in (
        ("bob", "bob may not override this freeze"),
        (None, "it is unknown who"),
        ("", "it is unknown who"),
    ):
        with pytest.raises(UserError, match=words):
            require_other_person(who, ("bob",), **asked)
    with pytest.raises(UserError, match="a person other than its author; found frozen by bob"):
        require_other_person("bob", ("bob",), **asked)


@pytest.mark.parametrize(
    "name",
    [
        "Alice",
        " alice ",
        "al\u200bice",
        "\u202ealice",
        "\uff41lice",
        "\u0430lice",
        "\u0430l\u0456\u0441\u0435",
        "ali\u00adce",
    ],
    ids=ascii,
)
def test_names_that_look_alike_are_one_person(name: str) -> None:
    """Capitals, spaces, what is not seen and letters of another alphabet make no second person."""
    assert canonical_name(name) == "alice"
    assert is_same_person(name, "alice")
    assert not is_other_person(name, ("alice",))
    assert not are_two_people((name,), "alice")
    assert not are_two_people((name, "alice"), None)


@pytest.mark.parametrize("name", ["", " ", "\u200b", "\u202e\u00ad", None])
def test_an_empty_name_is_nobody(name: str | None) -> None:
    """A name of which nothing is seen is no person, and none that another one differs from."""
    assert canonical_name(name) == ""
    assert not is_other_person(name, ("alice",))
    assert not is_same_person(name, name)
    with pytest.raises(UserError, match="it is unknown who"):
        require_person(name)


def test_two_people_stand_behind_what_nobody_has_started() -> None:
    """One who agrees is enough beside the person who started it, and not where an event did."""
    assert are_two_people(("bob",), "alice")
    assert not are_two_people(("bob",), None)
    assert not are_two_people(("bob", "BOB"), None)
    assert are_two_people(("bob", "carol"), None)
