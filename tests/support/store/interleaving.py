"""Requests of several publishers to one S3, in an order that the test says; and publishers that die at one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from slipway.hooks.s3_store import ModelStoreHook

_LIMIT_S = 60.0


class Killed(BaseException):
    """The process is gone: no handler of the program runs to any purpose, no request is sent any more."""


class Turns:
    """Lets one request through at a time: each is the turn of whom `order` names next, and then of whoever is left."""

    def __init__(self, order: Sequence[int], after_each: Callable[[], None]) -> None:
        self._order = list(order)
        self._left = {0, 1}
        self._changed = threading.Condition()
        self._after_each = after_each

    def take(self, me: int) -> None:
        """Wait for my turn."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._next() == me, _LIMIT_S)

    def end(self) -> None:
        """My turn is over."""
        with self._changed:
            self._after_each()
            if self._order:
                self._order.pop(0)
            self._changed.notify_all()

    def leave(self, me: int) -> None:
        """I shall send no more."""
        with self._changed:
            self._left.discard(me)
            self._changed.notify_all()

    def _next(self) -> int | None:
        while self._order and self._order[0] not in self._left:
            self._order.pop(0)
        return self._order[0] if self._order else min(self._left, default=None)


class MortalStore(ModelStoreHook):
    """A store whose client waits for its turns, and dies at its n-th request: before it was sent, or answered.

    :param dies_at: number of the request, from 1; 0: never.
    """

    def __init__(
        self,
        real: ModelStoreHook,
        *,
        dies_at: int = 0,
        answer_lost: bool = False,
        turns: Turns | None = None,
        me: int = 0,
    ) -> None:
        super().__init__(real.bucket, real.aws_conn_id)
        self.requests = 0
        self._dies_at, self._answer_lost = dies_at, answer_lost
        self._turns, self._me = turns, me
        self._is_dead = False
        self.client.meta.events.register("before-send.s3", self._before)
        self.client.meta.events.register("after-call.s3", self._after)

    def _before(self, **_: Any) -> None:
        if self._is_dead:
            raise Killed
        if self._turns is not None:
            self._turns.take(self._me)
        self.requests += 1
        if self.requests == self._dies_at and not self._answer_lost:
            self._die()

    def _after(self, **_: Any) -> None:
        if self._is_dead:
            raise Killed
        # A program with several threads may have sent more by the time that this one is answered.
        if 0 < self._dies_at <= self.requests:
            self._die()
        if self._turns is not None:
            self._turns.end()

    def _die(self) -> None:
        self._is_dead = True
        if self._turns is not None:
            self._turns.end()
        raise Killed
