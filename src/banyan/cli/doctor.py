"""banyan doctor: whether a running zone is well, and what to do where it is not. banyan support-bundle: what somebody
who helps has to see, in one file, without secrets.

Judged is what the zone says of itself (`/v1/status`, `/metrics`), so a zone anywhere can be looked at. What stands in
the way of one that does not run is `banyan check`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Final

from cyclopts import App, Parameter

from banyan.cli.output import Column, Screen, instant, number, words
from banyan.cli.session import session
from banyan.cli.target import HERE, Target
from banyan.core.ports import Finding
from banyan.zone.views import StatusView

# One line of /metrics: a name, labels, a number.
_LINE = re.compile(r"([a-z_:][a-z0-9_:]*)(\{[^}]*\})? ([0-9.eE+-]+|NaN|\+Inf)\Z", re.IGNORECASE)
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
Metrics = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]

HOUR, DAY = 3_600.0, 86_400.0
# Banyan corrects any offset for itself; over this many seconds a person should know.
SKEW: Final = 30.0
# A zone whose loop stands for so long answers late, and its children widen their deadlines.
HELD: Final = 1.0
# Of the bounded queues: the share that is full.
FULL: Final = 0.5
# An order whose outcome nobody knows for so long has a member that is away, or has forgotten it.
UNDECIDED: Final = 600.0
# A scan is late after so many intervals.
LATE_SCANS: Final = 3.0
CA_LEFT: Final = 90 * DAY
# Certificates live a day and are renewed from two thirds on.
CERTIFICATE_LEFT: Final = 4 * HOUR
DISK_FREE: Final = float(1 << 30)
DISK_DAYS: Final = 14.0
GIB: Final = float(1 << 30)

COLUMNS: tuple[Column[Finding], ...] = (
    Column("WELL", lambda f: words(f.ok)),
    Column("WHAT", lambda f: f.what),
    Column("FOUND", lambda f: f.found),
    Column("DO", lambda f: "" if f.ok else f.remedy),
)
BackupDays = Annotated[
    float, Parameter(metavar="DAYS", help="A backup older than this is not well. 0: backups are made otherwise.")
]


def doctor(*, backup_days: BackupDays = 7.0, target: Target = HERE) -> int:
    """Whether a running zone is well: its loop, queues, disk, certificates, clock, scans, parents, children, backup.

    Exit status 1 if something is not well. `banyan check` looks at a zone that does not run.
    """
    with session(target) as s:
        status = s.client.get("/v1/status", StatusView)
        found = list(diagnose(status, read_metrics(s.client.text("/metrics")), backup_days))
        return show(s.screen, found)


def show(screen: Screen, found: list[Finding]) -> int:
    if screen.json:
        screen.array(found)
    else:
        screen.table(COLUMNS, found, "nothing was looked at")
    return 0 if all(one.ok for one in found) else 1


def read_metrics(text: str) -> Metrics:
    """By name, then by labels. Lines that are none are left out: a newer zone may say more."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for line in text.splitlines():
        if (match := _LINE.match(line)) is not None:
            labels = tuple(sorted((key, value) for key, value in _LABEL.findall(match.group(2) or "")))
            found.setdefault(match.group(1), {})[labels] = float(match.group(3))
    return found


def diagnose(status: StatusView, metrics: Metrics, backup_days: float) -> Iterator[Finding]:
    """All that is looked at, in the order in which it matters."""
    now = datetime.fromisoformat(status.time).timestamp()
    yield Finding("zone", status.ready, "serves" if status.ready else status.reason, "banyan status")
    if status.restored_at is not None:
        text = f"restored from a backup {instant(status.restored_at)}: it forgets nobody, and lets nobody in"
        yield Finding("restore", False, text, "look, then: banyan release")
    yield from _parents(status, now)
    yield _children(status)
    yield from _racks(status, metrics, now)
    yield _clock(status)
    yield _authority(status, now)
    yield _loop(metrics)
    yield from _queues(metrics)
    yield _orders(metrics)
    yield _activations(metrics)
    yield from _receivers(metrics)
    yield from _disk(metrics)
    if backup_days:
        yield _backup(metrics, now, backup_days)


def _one(metrics: Metrics, name: str) -> float | None:
    """The value of a metric that has no labels; None where the zone does not tell it."""
    return metrics.get(name, {}).get(())


def _by(metrics: Metrics, name: str, label: str) -> Iterator[tuple[str, float]]:
    for labels, value in metrics.get(name, {}).items():
        yield dict(labels).get(label, ""), value


def _parents(status: StatusView, now: float) -> Iterator[Finding]:
    for uplink in status.uplinks:
        name = uplink.parent or ", ".join(uplink.addresses)
        what = f"parent {name}"
        if uplink.state != "connected":
            yield Finding(what, False, f"{uplink.state}: {uplink.reason or 'no reason is known'}", "banyan check")
            continue
        if uplink.certificate_until is None:
            yield Finding(what, True, "connected")
            continue
        left = datetime.fromisoformat(uplink.certificate_until).timestamp() - now
        text = f"connected; the certificate for it is {f'good for {_span(left)} more' if left > 0 else 'over'}"
        remedy = f"it is renewed by the parent, and was not: look at `banyan status` and the log of {name}"
        yield Finding(what, left >= CERTIFICATE_LEFT, text, remedy)


def _children(status: StatusView) -> Finding:
    below = status.children
    away = [(word, count) for word, count in (("lost", below.lost), ("suspect", below.suspect),
            ("unavailable", below.unavailable)) if count]  # fmt: skip
    if not away:
        return Finding("zones below", True, f"{number(below.total)}, none of them away")
    text = ", ".join(f"{number(count)} {word}" for word, count in away)
    return Finding("zones below", False, f"of {number(below.total)}: {text}", f"banyan zone list --health {away[0][0]}")


def _racks(status: StatusView, metrics: Metrics, now: float) -> Iterator[Finding]:
    intervals = dict(_by(metrics, "banyan_scan_interval_seconds", "rack"))
    for rack in status.racks:
        what = f"rack {rack.name}"
        if rack.health != "available":
            yield Finding(what, False, f"{rack.health}: {rack.reason or 'no reason is known'}", "banyan check")
            continue
        if rack.scanned_at is None:
            yield Finding(what, False, "not scanned yet", "banyan rack list; look at the log")
            continue
        age = now - datetime.fromisoformat(rack.scanned_at).timestamp()
        late = age > LATE_SCANS * intervals.get(rack.name, 60.0)
        said = f"last scanned {_span(age)} ago"
        yield Finding(what, not late, said, f"what is known of its hosts is old: banyan zone rescan {status.path}")


def _clock(status: StatusView) -> Finding:
    offset = status.time_offset
    text = f"this machine's clock is corrected by {offset:+.1f} s"
    return Finding("clock", abs(offset) <= SKEW, text, "set the clock, and keep it with NTP (chronyc tracking)")


def _authority(status: StatusView, now: float) -> Finding:
    left = datetime.fromisoformat(status.ca_until).timestamp() - now
    return Finding(
        "CA", left > CA_LEFT, f"ends in {_span(left)}", "banyan authority rotate: children go over by themselves"
    )


def _loop(metrics: Metrics) -> Finding:
    held, lag = _one(metrics, "banyan_loop_held_seconds"), _one(metrics, "banyan_loop_lag_seconds") or 0.0
    if held is None:
        return Finding("event loop", True, "not looked at: this zone does not tell it")
    text = f"held for {1000 * held:,.0f} ms at most within the last minute"
    if lag >= 0.1:
        text += f"; it judged its children {lag:.1f} s late, and grants them as much longer"
    remedy = "the machine has too little CPU for it, or its disk or memory stalls: look at top, iostat; or move racks"
    return Finding("event loop", max(held, lag) <= HELD, text, remedy)


def _queues(metrics: Metrics) -> Iterator[Finding]:
    limits = dict(_by(metrics, "banyan_api_queue_limit", "door"))
    for door, depth in sorted(_by(metrics, "banyan_api_queue_depth", "door")):
        refused = dict(_by(metrics, "banyan_api_queue_refused_total", "door")).get(door, 0.0)
        most = limits.get(door, 0.0)
        text = f"{number(int(depth))} of {number(int(most))} wait; {number(int(refused))} turned away since its start"
        remedy = "more API processes (banyan serve --role api), or fewer requests: banyan journal, /metrics by route"
        yield Finding(f"requests ({door})", depth <= FULL * most, text, remedy)
    waiting = _one(metrics, "banyan_store_waiting")
    if waiting is not None:
        text = f"{number(int(waiting))} units of work wait for the database"
        yield Finding("store", waiting < 1_000, text, "the disk is slow or busy: iostat -x 1")
    for rack, unanswered in sorted(_by(metrics, "banyan_deeds_unanswered_total", "rack")):
        waits = dict(_by(metrics, "banyan_deeds_waiting", "rack")).get(rack, 0.0)
        text = f"{number(int(waits))} wait, {number(int(unanswered))} went unanswered since the start"
        remedy = f"the cloud below {rack} does not answer in time: banyan check"
        yield Finding(f"deeds ({rack})", waits < 10_000, text, remedy)


def _orders(metrics: Metrics) -> Finding:
    held, since = _one(metrics, "banyan_orders_held") or 0.0, _one(metrics, "banyan_orders_held_seconds") or 0.0
    owed = _one(metrics, "banyan_members_owed_a_word") or 0.0
    text = f"{number(int(held))} not settled, the oldest for {_span(since)}; {number(int(owed))} zones are owed a word"
    if not held:
        text = f"none waits to be settled; {number(int(owed))} zones are owed a word"
    remedy = (
        "a zone that took an order is away: banyan zone list --health lost; what it holds stays held until it is back"
    )
    return Finding("orders", since <= UNDECIDED, text, remedy)


def _activations(metrics: Metrics) -> Finding:
    failing = [
        " ".join(value for _, value in labels)
        for labels, value in metrics.get("banyan_activation_failing", {}).items()
        if value
    ]
    if not failing:
        return Finding("activities", True, "none fails")
    return Finding(
        "activities", False, f"failing now: {', '.join(sorted(failing))}", "the log says why; it tries again"
    )


def _receivers(metrics: Metrics) -> Iterator[Finding]:
    waiting = dict(_by(metrics, "banyan_receiver_backlog", "receiver"))
    for name, failing in _by(metrics, "banyan_receiver_failing", "receiver"):
        text = f"{'takes no alarms' if failing else 'is told'}; {number(int(waiting.get(name, 0)))} lines wait for it"
        yield Finding(f"receiver {name}", not failing, text, f"banyan receiver test {name}")


def _disk(metrics: Metrics) -> Iterator[Finding]:
    free = _one(metrics, "banyan_disk_free_bytes")
    if free is None:
        yield Finding("disk", False, "how much room is left could not be read", "df -h DATA; is the disk there?")
        return
    text, well = f"{free / GIB:.1f} GiB free", free >= DISK_FREE
    grows = _one(metrics, "banyan_database_growth_bytes_per_day")
    if grows is None:
        text += "; how fast the database grows is known an hour after the first start"
    elif grows > 0:
        days = free / grows
        text += f"; the database grows by {grows / (1 << 20):,.1f} MiB a day: full in {_span(days * DAY)}"
        well = well and days >= DISK_DAYS
    else:
        text += "; the database does not grow"
    yield Finding("disk", well, text, "make room on the disk of the data folder, or a larger one")


def _backup(metrics: Metrics, now: float, most: float) -> Finding:
    made = _one(metrics, "banyan_backup_made_seconds")
    remedy = "banyan backup FILE --passphrase-file F; keep both elsewhere (docs/operator-guide.md)"
    if made is None:
        return Finding("backup", False, "none was made by `banyan backup`", remedy)
    return Finding("backup", now - made <= most * DAY, f"made {_span(now - made)} ago", remedy)


def _span(seconds: float) -> str:
    """A stretch of time as people say it."""
    for unit, name in ((365 * DAY, "years"), (DAY, "days"), (HOUR, "hours"), (60.0, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{max(0.0, seconds):,.0f} s"


def register(app: App) -> None:
    app.command(doctor)
