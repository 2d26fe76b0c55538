"""One command's session: the client and the screen, and the exit status at its end.

0 well · 1 broken · 2 usage · 3 refused · 4 not found · 5 unreachable · 6 partial
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, TypeVar

from cyclopts import Parameter

from banyan.cli.client import Client, connect
from banyan.cli.output import Column, Screen
from banyan.cli.target import Target
from banyan.cli.values import default_folder
from banyan.core.errors import BadInput, BanyanError, Unreachable

T = TypeVar("T")

OK, PARTIAL = 0, 6

Limit = Annotated[int | None, Parameter(help="At most so many (default: all).", metavar="N")]
Under = Annotated[
    str,
    Parameter(
        help="Only what lies in this zone: a path, its last part, or a code.", metavar="PATH", show_default=False
    ),
]
LabelFilter = Annotated[
    tuple[str, ...],
    Parameter(negative="", help="Only zones with this label; may be given again.", metavar="K=V", show_default=False),
]
Apply = Annotated[bool, Parameter(negative="", help="Do it. Without this it is only shown.", show_default=False)]
Pattern = Annotated[str, Parameter(help="Only names that match, as in 'lab*'.", metavar="PATTERN", show_default=False)]


@dataclass(frozen=True, slots=True)
class Session:
    client: Client
    screen: Screen

    def list(
        self,
        path: str,
        item: type[T],
        columns: Sequence[Column[T]],
        empty: str,
        limit: int | None,
        **query: str | tuple[str, ...] | None,
    ) -> int:
        """Prints a whole list, as an array or a table. PARTIAL if some zone could not be asked."""
        check_limit(limit)
        if self.screen.json:
            self.screen.array(self.client.raw_pages(path, limit, query))
        else:
            self.screen.table(columns, self.client.pages(path, item, limit, query), empty)
        return self.end()

    def end(self) -> int:
        """OK, or PARTIAL with an error that names what could not be asked."""
        absent = self.client.absent
        if not absent:
            return OK
        named = ", ".join(absent[:20]) + (f" and {len(absent) - 20} more" if len(absent) > 20 else "")
        self.screen.error(Unreachable("partial", f"not complete: {len(absent)} could not be asked: {named}"))
        return PARTIAL


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise BadInput("bad-limit", f"--limit is at least 1, got {limit}")


@contextmanager
def session(target: Target) -> Iterator[Session]:
    """A session with the zone that `target` means."""
    with connect(target.where(default_folder())) as client:
        yield Session(client, Screen(target.json))


def each(session: Session, names: Iterable[str], act: Callable[[str], T]) -> tuple[list[T], int]:
    """`act` on each name in turn, whatever becomes of the others. What was done, and the exit status.

    Every failure is printed. The status is that of the failures if they agree and nothing was done; PARTIAL if
    some were done and some not.
    """
    done: list[T] = []
    failed: list[int] = []
    for name in names:
        try:
            done.append(act(name))
        except BanyanError as error:
            failed.append(error.exit_status)
            session.screen.error(error)
    if not failed:
        return done, OK
    return done, PARTIAL if done or len(set(failed)) > 1 else failed[0]
