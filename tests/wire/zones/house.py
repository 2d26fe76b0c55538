"""A top with a child that behaves and one in the test's hands, for those who look at what the second can do to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from banyan.core.ids import ZoneCode, parse_code
from banyan.core.records import AuthorityRow
from tests.wire.zones.processes import Cloud, Zone
from tests.wire.zones.stores import look
from tests.wire.zones.stranger import Stranger


@dataclass
class House:
    """`good` is a real zone with three hosts, `mad` has enrolled and may say anything; `authorities`: the top's CAs."""

    top: Zone
    good: Zone
    authorities: Sequence[AuthorityRow]
    mad: Stranger

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.top.link}"

    @property
    def code(self) -> ZoneCode:
        return ZoneCode(parse_code(self.top.status()["code"]))

    def joined(self, name: str) -> Stranger:
        return asyncio.run(Stranger(self.address, name).join(self.top.code()))

    def well(self) -> None:
        """The zone serves, and its other child is as it was."""
        row = self.top.seen()["top/good"]
        assert (row["state"], row["health"]) == ("ready", "alive")
        assert self.top.status()["ready"]


@contextmanager
def housed(folder: Path) -> Iterator[House]:
    """At the end the good one was heard all the time, and the top met nothing that it had not expected."""
    with Cloud(folder) as cloud:
        top = cloud.zone("top").start()
        good = cloud.zone("good", code=top.code(), hosts=3).start()
        top.stop()
        authorities = look(top.data, lambda unit: unit.authorities.all())
        top.start()
        top.wait_for_zone("good", state="ready", health="alive")
        made = House(top, good, authorities, Stranger("", ""))
        made.mad = made.joined("mad")
        yield made
        assert "Traceback" not in top.log.read_text()
        assert not [line for line in top.journal(about="good", limit="1000") if line["kind"] == "child-suspect"]
