"""How grave an event is: five levels, those of syslog that a zone has a use for (RFC 5424, 6.2.1)."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """INFO: as asked or expected. NOTICE: worth knowing. WARNING: look when there is time. ERROR: something is lost or
    was not done. CRITICAL: look now."""

    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def syslog(self) -> int:
        """As RFC 5424 numbers it: lower is graver."""
        return _SYSLOG[self]

    def at_least(self, floor: Severity) -> bool:
        return self.syslog <= floor.syslog


_SYSLOG = {Severity.INFO: 6, Severity.NOTICE: 5, Severity.WARNING: 4, Severity.ERROR: 3, Severity.CRITICAL: 2}
