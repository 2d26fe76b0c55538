"""Receivers in the settings: what is of no use is refused with its name, and what may be shown of an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.core.errors import BadInput
from banyan.core.receiver import MAX_RECEIVERS, ReceiverKind
from banyan.core.severity import Severity
from banyan.serve.config import load
from banyan.serve.receiver_settings import where
from banyan.zone.settings import ZoneSettings

HOOK = 'name = "pager"\nkind = "webhook"\naddress = "https://alarms.example/x/s3cret?k=s3cret"\nsecret_file = "s"\n'
LOG = 'name = "siem"\nkind = "syslog"\naddress = "tls://siem.example:6514"\n'


def settings(folder: Path, *rows: str) -> ZoneSettings:
    file = folder / "banyan.toml"
    file.write_text('[zone]\nname = "lab"\n' + "".join(f"[[receiver]]\n{row}" for row in rows))
    return load(file, {"data": str(folder)}).for_zone()


def test_receivers_are_read(tmp_path: Path) -> None:
    pager, siem = settings(tmp_path, HOOK + 'severity = "error"\n', LOG + 'facility = "local3"\n').receivers
    assert (pager.kind, pager.where, pager.severity) == (ReceiverKind.WEBHOOK, "https://alarms.example", Severity.ERROR)
    assert (siem.where, siem.facility, siem.severity) == ("tls://siem.example:6514", 19, Severity.NOTICE)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (HOOK.replace("pager", "Pa ger"), "receiver name"),
        (HOOK.replace('secret_file = "s"', ""), "needs a secret_file"),
        (LOG + 'secret_file = "s"\n', "syslog has none"),
        (HOOK.replace("https", "http"), "this machine only"),
        (HOOK.replace("https", "ftp"), "begins with https"),
        (HOOK.replace("alarms", "user:pw@alarms"), "a user or a password"),
        (LOG.replace("tls://siem.example:6514", "siem.example"), "udp://, tcp:// or tls://"),
        (LOG.replace("6514", "99999"), "a host or a port that is none"),
        (LOG.replace("6514", "6514/path"), "udp://, tcp:// or tls://"),
        (LOG.replace("tls://siem.example:6514", "unix:log"), "a local socket"),
        (LOG + 'facility = "kern"\n', "facility is one of"),
        (LOG + 'severity = "loud"\n', "severity"),
        (LOG + "backlog = 5\n", "backlog"),
        (LOG + "colour = 5\n", "colour"),
    ],
)
def test_what_is_of_no_use_is_refused_by_name(tmp_path: Path, row: str, says: str) -> None:
    with pytest.raises(BadInput, match=says) as raised:
        settings(tmp_path, row)
    assert "s3cret" not in raised.value.text and "pw" not in raised.value.text


def test_names_are_used_once_and_there_are_few(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="same name"):
        settings(tmp_path, LOG, LOG)
    with pytest.raises(BadInput, match="at most"):
        settings(tmp_path, *(LOG.replace('siem"', f'siem{n}"') for n in range(MAX_RECEIVERS + 1)))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://[2001:db8::1]:8443/x?y", "https://[2001:db8::1]:8443"),
        ("http://127.0.0.1:80/x", "http://127.0.0.1:80"),
        ("http://localhost/x", "http://localhost"),
    ],
)
def test_what_may_be_shown_of_a_webhook(address: str, shown: str) -> None:
    assert where("pager", ReceiverKind.WEBHOOK, address) == shown


@pytest.mark.parametrize("address", ["unix:/dev/log", "udp://192.0.2.1", "tcp://log.example:601"])
def test_all_of_a_syslog_address_may_be_shown(address: str) -> None:
    assert where("siem", ReceiverKind.SYSLOG, address) == address
