"""A secret that cannot be printed by accident: key seeds, join-code secrets, passphrases."""

from __future__ import annotations

import hmac


class Secret:
    """Bytes that show as `Secret(…)` in repr, str, logs and tracebacks. `reveal()` is the only way out."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Secret is never pickled")
