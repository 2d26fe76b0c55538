"""What the API counts of itself, for /metrics: requests and seconds by row and status. Bounded by the table."""

from __future__ import annotations

from collections.abc import Mapping


class Meter:
    """`count` is called once per answered request; `row` is "" when no row was found."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, float] = {}

    def count(self, row: str, status: int, seconds: float) -> None:
        key = row or "none"
        self._requests[key, status] = self._requests.get((key, status), 0) + 1
        self._seconds[key] = self._seconds.get(key, 0.0) + max(0.0, seconds)

    def read(self) -> Mapping[str, float]:
        found: dict[str, float] = {
            f'banyan_api_requests_total{{route="{row}",status="{status}"}}': float(n)
            for (row, status), n in self._requests.items()
        }
        found.update(
            {f'banyan_api_request_seconds_total{{route="{row}"}}': spent for row, spent in self._seconds.items()}
        )
        return found
