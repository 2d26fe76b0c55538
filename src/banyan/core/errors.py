"""The tree of errors. Each leaf has a stable code, a public text, and detail kept for operators.

    BanyanError
    ├── BadInput          usage: the request is wrong as it stands            (exit 2, HTTP 400)
    ├── Refused           understood, and denied by a rule                    (exit 3, HTTP 403)
    │   └── Conflict      denied by the present state; may change             (exit 3, HTTP 409)
    ├── NotFound          no such thing, or not for this caller               (exit 4, HTTP 404)
    ├── Unreachable       the other side cannot be reached, or is not ready   (exit 5, HTTP 503)
    ├── Unauthenticated   no valid credential came with the request           (exit 3, HTTP 401)
    └── Broken            our own state is not as it must be                  (exit 1, HTTP 500)

The public text says what was expected, what came, and what to do. It never holds a secret.
Adapters convert foreign exceptions at their edge with `raise … from`. docs/generated/errors.md lists all codes.
"""

from __future__ import annotations

from typing import ClassVar


class BanyanError(Exception):
    """One refusal or failure.

    `code` is stable and kebab-case ("name-taken"); `text` is public; `detail` is for operators
    only (never sent to a stranger); `transient` says whether the same call may succeed later;
    `retry_after` is seconds, or None.
    """

    status: ClassVar[int] = 500
    exit_status: ClassVar[int] = 1

    def __init__(
        self,
        code: str,
        text: str,
        *,
        detail: str = "",
        transient: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.detail = detail
        self.transient = transient
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r}, {self.text!r})"


class BadInput(BanyanError):
    status = 400
    exit_status = 2


class Refused(BanyanError):
    status = 403
    exit_status = 3


class Conflict(Refused):
    status = 409


class Unauthenticated(BanyanError):
    status = 401
    exit_status = 3


class NotFound(BanyanError):
    status = 404
    exit_status = 4


class Unreachable(BanyanError):
    status = 503
    exit_status = 5


class Broken(BanyanError):
    status = 500
    exit_status = 1


def error_of(status: int, code: str, text: str) -> BanyanError:
    """The error that another zone told of, by its status; Unreachable for one that says nothing about the request."""
    kinds: dict[int, type[BanyanError]] = {400: BadInput, 403: Refused, 404: NotFound, 409: Conflict}
    return kinds.get(status, Unreachable)(code, text)
