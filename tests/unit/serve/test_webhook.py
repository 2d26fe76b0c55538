"""What a webhook is sent: CloudEvents in JSON, signed so that a receiver with the secret can prove it, and only it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from banyan.core.errors import BadInput
from banyan.core.ids import ZoneCode
from banyan.core.journal import Line
from banyan.core.notices import Folder
from banyan.core.receiver import Notice, ReceiverKind, ReceiverSpec
from banyan.core.severity import Severity
from banyan.core.time import Wall
from banyan.serve.webhook import event, headers, read_secrets, refusal, signature

SPEC = ReceiverSpec("siem", ReceiverKind.WEBHOOK, "https://siem.example/hook", "https://siem.example", Severity.INFO)
SECRET = base64.b64encode(bytes(range(32))).decode()


def line(number: int, kind: str = "child-lost", target: str = "east", **facts: str) -> Line:
    digest = hashlib.sha256(f"{number}".encode()).digest()
    at = Wall(1_796_083_200.0 + number)
    return Line(number, at, kind, target, "system", "", "", "req-1", "not heard", facts, "done", digest)


def notices(*lines: Line) -> list[Notice]:
    folder = Folder(SPEC, "top/lab", ZoneCode(77), 0)
    for one in lines:
        folder.add(one)
    return folder.notices(folder.storms())


def test_an_event_has_what_cloudevents_needs_and_what_an_operator_needs() -> None:
    (notice,) = notices(line(7, last="2026-11-30"))
    told = json.loads(event(notice))
    assert {"specversion", "id", "source", "type"} <= told.keys()
    assert told["specversion"] == "1.0" and told["datacontenttype"] == "application/json"
    assert (told["type"], told["subject"], told["severity"]) == ("banyan.child-lost", "east", "critical")
    assert told["source"] == "urn:banyan:zone:0000002d"
    assert told["time"] == "2026-12-01T00:00:07.000Z"
    assert told["id"].startswith("0000002d-7-")
    # Names of attributes are lower-case letters and digits (CloudEvents 1.0, "Naming Conventions").
    assert all(name.isascii() and name.isalnum() and name == name.lower() for name in told)
    about = told["data"]
    assert "east" in about["means"] and "2026-12-01T00:00:07.000Z" in about["means"]
    assert about["next"] == "`banyan zone show east`"
    assert all(about[name] for name in ("done", "held", "text", "since"))
    assert about["facts"] == {"last": "2026-11-30"}


def test_a_storm_is_one_event_with_its_count_and_the_first_of_it() -> None:
    (notice,) = notices(*(line(n, target=f"z{n}") for n in range(1, 51)))
    about = json.loads(event(notice))["data"]
    assert (about["count"], len(about["subjects"]), about["first"], about["last"]) == (50, 20, 1, 50)
    assert about["next"] == "`banyan journal --kind child-lost --after 0 --limit 50`"


def test_texts_of_strangers_are_bounded_and_steer_nothing() -> None:
    hostile = "\x1b[2Jx" * 5_000
    one = Line(
        1, Wall(1.0), "join-refused", hostile, hostile, "", "", "", hostile, {hostile: hostile}, "refused", b"1234"
    )
    (notice,) = notices(one)
    body = event(notice)
    assert len(body) < 12_000
    assert b"\\u001b" not in body and b"\x1b" not in body


def test_the_signature_is_that_of_standard_webhooks() -> None:
    secret = base64.b64decode(SECRET)
    body = b'{"a":1}'
    made = headers((secret,), "msg-1", Wall(1_614_265_330.9), body)
    assert made["webhook-id"] == "msg-1" and made["webhook-timestamp"] == "1614265330"
    proof = hmac.new(secret, b"msg-1.1614265330." + body, hashlib.sha256).digest()
    assert made["webhook-signature"] == "v1," + base64.b64encode(proof).decode()
    assert made["Content-Type"].startswith("application/cloudevents+json")


def test_the_example_of_the_specification() -> None:
    """The vector that its libraries test against."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    assert signature((secret,), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_while_a_secret_is_changed_both_prove_it(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"whsec_{SECRET}\n{base64.b64encode(b'o' * 24).decode()}\n")
    file.chmod(0o600)
    new, old = read_secrets("siem", file)
    assert (new, old) == (bytes(range(32)), b"o" * 24)
    assert len(signature((new, old), "m", 1, b"").split(" ")) == 2


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [
        (SECRET, 0o640, "read by others"),
        (SECRET, 0o604, "read by others"),
        ("", 0o600, "0 lines"),
        ("a\nb\nc", 0o600, "3 lines"),
        ("whsec_!!!", 0o600, "no secret"),
        (base64.b64encode(b"short").decode(), 0o600, "no secret"),
        (base64.b64encode(b"l" * 65).decode(), 0o600, "no secret"),
    ],
)
def test_a_file_that_is_no_secret_is_refused_and_not_repeated(
    tmp_path: Path, content: str, mode: int, says: str
) -> None:  # fmt: skip
    file = tmp_path / "secret"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(BadInput, match=says) as raised:
        read_secrets("siem", file)
    assert not content or content not in raised.value.text


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_secrets("siem", tmp_path / "none")


def test_what_an_answer_means() -> None:
    assert refusal("w", 410, "").gone
    assert refusal("w", 422, "").refused and not refusal("w", 503, "").refused
    assert refusal("w", 429, "120").retry_after == 120.0
    assert refusal("w", 503, "Wed, 21 Oct 2026 07:28:00 GMT").retry_after is None
    assert "not followed" in refusal("w", 302, "").text
    assert not any(refusal("w", status, "").gone for status in (200 + 101, 401, 404, 500))
