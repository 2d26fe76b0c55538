"""The part of tests/api/surface.py that is about receivers of alarms."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from banyan.core.errors import NotFound
from banyan.core.identity import Caller, Role
from banyan.core.receiver import SendFailed
from banyan.zone.receiver_view import ReceiverView
from banyan.zone.views import PageView

SIEM = ReceiverView(
    "siem", "webhook", "https://siem.example", "notice", ("*",), (), "dead", "2026-11-30T11:00:00.000Z",
    "https://siem.example answered 503", None, 12, 3, 0, 7, 0, 0,
)  # fmt: skip


class FakeReceivers(ABC):
    """`receiver_takes` false: a test is not taken."""

    receiver_takes = True

    @abstractmethod
    def _whole(self, caller: Caller, needed: Role) -> None: ...

    async def receivers(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._whole(caller, Role.OPERATOR)
        return PageView(tuple(msgspec.Raw(msgspec.json.encode(one)) for one in [SIEM] if one.name > marker))

    async def test_receiver(self, caller: Caller, name: str) -> ReceiverView:
        self._whole(caller, Role.OPERATOR)
        if name != SIEM.name:
            raise NotFound("no-receiver", f"there is no receiver {name!r}; there are siem")
        if not self.receiver_takes:
            raise SendFailed(SIEM.last_error)
        return msgspec.structs.replace(SIEM, state="well", since=None, last_error="")
