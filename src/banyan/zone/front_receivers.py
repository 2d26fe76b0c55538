"""The part of zone/front.py that is about receivers of alarms: listed and tested, in this zone only."""

from __future__ import annotations

import msgspec

from banyan.core.identity import Caller, Role
from banyan.zone.front_servers import ServersFront
from banyan.zone.lists import check_limit
from banyan.zone.receiver_view import ReceiverView
from banyan.zone.views import PageView


class ReceiversFront(ServersFront):
    """Every public method authorises first. See zone/surface.py for what each takes and raises."""

    async def receivers(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._here(caller, Role.OPERATOR)
        views = [view for view in await self._zone.receivers.views() if view.name > marker]
        shown = views[: check_limit(limit)]
        more = shown[-1].name if len(views) > len(shown) else ""
        return PageView(tuple(msgspec.Raw(msgspec.json.encode(view)) for view in shown), more)

    async def test_receiver(self, caller: Caller, name: str) -> ReceiverView:
        self._here(caller, Role.OPERATOR)
        return await self._zone.receivers.test(caller, name)
