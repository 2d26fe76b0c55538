"""What goes on the screen: JSON as documented, tables for people, errors on standard error.

With --json standard output holds the documented shape and nothing else. Tables are rich's on a terminal and plain,
aligned text elsewhere; nothing in them is cut short, so that an id can be copied from either. Names and reasons come
from clouds and zones that others run: what is shown to people is made printable here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, TextIO, TypeVar

import msgspec

from banyan.core.errors import BanyanError
from banyan.core.text import printable, printable_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

T = TypeVar("T")

# Widths are taken from so many rows; a longer list is printed as it comes.
LOOKED_AHEAD = 1000

STYLES = {
    "alive": "green", "ready": "green", "enabled": "green", "available": "green", "active": "green", "done": "green",
    "suspect": "yellow", "joining": "yellow", "registered": "yellow", "scanning": "yellow", "counting": "yellow",
    "maintenance": "yellow", "disabled": "yellow", "building": "yellow", "stopped": "yellow",
    "lost": "bold red", "gone": "red", "banned": "bold red", "unavailable": "bold red", "error": "bold red",
    "refused": "bold red", "failed": "bold red", "retired": "dim",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """`show` makes the cell's text. Words of STYLES are coloured on a terminal."""

    title: str
    show: Callable[[T], str]
    right: bool = False


class Screen:
    """Where a command prints. `json` is whether --json was given."""

    def __init__(self, json: bool, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.json = json
        self.out = out or sys.stdout
        self.err = err or sys.stderr

    @property
    def terminal(self) -> bool:
        return self.out.isatty()

    def console(self) -> Console:
        from rich.console import Console

        # Elsewhere than on a terminal lines are as wide as they must be.
        return Console(file=self.out, highlight=False, width=None if self.terminal else 200)

    def line(self, text: str) -> None:
        print(printable_lines(text), file=self.out)

    def note(self, text: str) -> None:
        """For people, beside the result. With --json nothing: what a script must know is in the result, or an error."""
        if self.json:
            return
        print(printable_lines(text), file=self.err)

    def one(self, value: object) -> None:
        content = msgspec.json.encode(value)
        print((msgspec.json.format(content, indent=2) if self.terminal else content).decode(), file=self.out)

    def array(self, items: Iterable[object]) -> None:
        """A JSON array, an item per line, printed as it comes."""
        first = True
        for item in items:
            content = bytes(item) if isinstance(item, msgspec.Raw) else msgspec.json.encode(item)
            print("[" if first else ",", end="\n", file=self.out)
            print(content.decode(), end="", file=self.out)
            first = False
        print("[]" if first else "\n]", file=self.out)

    def table(self, columns: Sequence[Column[T]], rows: Iterable[T], empty: str) -> None:
        """Rows under titles; `empty` says, on standard error, that there are none."""
        cells = ([printable(column.show(row)) for column in columns] for row in rows)
        head = list(islice(cells, LOOKED_AHEAD))
        if not head:
            self.note(empty)
            return
        more = list(islice(cells, 1))
        if self.terminal and not more:
            self._rich(columns, head)
        else:
            self._plain(columns, head, chain(more, cells))

    def show(self, pairs: Iterable[tuple[str, str]]) -> None:
        """One thing: names and values. Empty values are left out."""
        rows = [(name, value) for name, value in pairs if value]
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            print(f"{name.ljust(width)}  {printable(value)}", file=self.out)

    def render(self, picture: RenderableType) -> None:
        self.console().print(picture)

    def error(self, error: BanyanError) -> None:
        if self.json:
            body = {"error": {"code": error.code, "text": error.text}}
            print(msgspec.json.encode(body).decode(), file=self.err)
        else:
            print(f"banyan: {printable_lines(error.text)} [{printable(error.code)}]", file=self.err)

    def _plain(self, columns: Sequence[Column[T]], head: list[list[str]], rest: Iterable[list[str]]) -> None:
        titles = [column.title for column in columns]
        widths = [max(len(row[i]) for row in [titles, *head]) for i in range(len(columns))]
        for row in chain([titles], head, rest):
            text = "  ".join(
                cell.rjust(width) if column.right else cell.ljust(width)
                for cell, width, column in zip(row, widths, columns, strict=True)
            )
            print(text.rstrip(), file=self.out)

    def _rich(self, columns: Sequence[Column[T]], rows: list[list[str]]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
        self.render(table)


def number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def share(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.1f} %"


def instant(value: str | None) -> str:
    """An RFC 3339 instant to the second."""
    return "never" if value is None else value.partition(".")[0].removesuffix("Z") + "Z"


def pairs(values: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(values.items()))


def words(value: bool | None) -> str:
    """None is what nobody knows."""
    return "unknown" if value is None else "yes" if value else "no"
