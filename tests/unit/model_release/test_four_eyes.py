"""Who counts as a person, and as another one."""

from __future__ import annotations

import pytest

from include.model_release.errors import UserError
from include.model_release.four_eyes import is_other_person, require_other_person, require_person


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
        (None, "nobody knows who"),
        ("", "nobody"),
    ):
        with pytest.raises(UserError, match=words):
            require_other_person(who, ("bob",), **asked)
    with pytest.raises(UserError, match="another person than its author; found frozen by bob"):
        require_other_person("bob", ("bob",), **asked)
