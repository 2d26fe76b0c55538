"""Passwords on their way to a guest: held in memory until they are set, and stored nowhere."""

from __future__ import annotations

from banyan.core.secret import Secret


class Passwords:
    """By server. What is not there any more after a restart was not set: the action fails, and is asked for again."""

    def __init__(self) -> None:
        self._passwords: dict[str, Secret] = {}

    def put(self, server: str, password: Secret) -> None:
        self._passwords[server] = password

    def take(self, server: str) -> Secret | None:
        return self._passwords.pop(server, None)
