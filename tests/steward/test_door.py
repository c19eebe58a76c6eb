"""Stamps by themselves: of one session, for one action."""

from __future__ import annotations

from dpcape.steward.sign_in import SignIn


def test_a_stamp_is_of_its_session_and_its_action() -> None:
    door = SignIn()
    assert door.enter(door.code)
    stamp = door.stamp("/study/1/approve")
    assert door.stamped("/study/1/approve", stamp)
    assert not door.stamped("/study/1/deny", stamp)
    assert not door.stamped("/study/2/approve", stamp)
    assert not door.stamped("/study/1/approve", "")
    door.leave()
    assert not door.stamped("/study/1/approve", stamp)
    assert door.enter(door.code)
    assert not door.stamped("/study/1/approve", stamp)


def test_a_code_is_void_once_it_was_used() -> None:
    door = SignIn()
    code = door.code
    first = door.enter(code)
    assert first is not None
    assert door.code != code
    assert door.enter(code) is None
    # Somebody's wrong guess does not end the session.
    assert door.admits([first])
    door.leave()
    assert not door.admits([first, ""])
