"""Requests that were signed with an EC2 key: a service that got one asks who that is."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from tests.api.openstack.lab import SYSTEM, Json, Lab, on_project

HOST, PATH = "ec2.example.com", "/services/Cloud"


class Keyed(Lab):
    """A lab with a user, `ann`, who has an EC2 key for project p1."""

    def __init__(self) -> None:
        super().__init__()
        self.p1, self.ann = self.project("p1"), self.user("ann")
        self.grant("member", f"users/{self.ann}", f"projects/{self.p1}")
        token = self.log_in("ann", "ann-pw", on_project(self.p1))
        made = self.good("POST", f"/users/{self.ann}/credentials/OS-EC2", token, {"tenant_id": self.p1})["credential"]
        self.access, self.secret = str(made["access"]), str(made["secret"])

    def signed(self, secret: str = "", age: float = 0.0) -> Json:
        at = datetime.fromtimestamp(self.own.wall() - age, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        params = {"Action": "X", "SignatureMethod": "HmacSHA256", "SignatureVersion": "2", "Timestamp": at}
        pairs = "&".join(f"{name}={value.replace(':', '%3A')}" for name, value in sorted(params.items()))
        text = f"GET\n{HOST}\n{PATH}\n{pairs}".encode()
        made = hmac.new((secret or self.secret).encode(), text, hashlib.sha256).digest()
        signature = base64.b64encode(made).decode()
        return {
            "access": self.access, "signature": signature, "host": HOST, "verb": "GET", "path": PATH, "params": params,
        }  # fmt: skip

    def tell(self, credentials: Json, token: str = "", kind: str = "credentials") -> httpx.Response:
        return self.ask("POST", "/ec2tokens", token or self.log_in(scope=SYSTEM), {kind: credentials})


@pytest.fixture(scope="module")
def lab() -> Iterator[Keyed]:
    lab = Keyed()
    yield lab
    lab.close()


@pytest.mark.parametrize("kind", ["credentials", "ec2Credentials"])
def test_who_signed_gets_a_token_of_the_keys_project(lab: Keyed, kind: str) -> None:
    answer = lab.tell(lab.signed(), kind=kind)
    assert answer.status_code == 200, answer.text
    token = answer.json()["token"]
    assert (token["user"]["id"], token["project"]["id"]) == (lab.ann, lab.p1)
    assert [role["name"] for role in token["roles"]] == ["member", "reader"]
    assert token["methods"] == ["ec2credential"]
    assert lab.good("GET", f"/users/{lab.ann}", answer.headers["X-Subject-Token"])["user"]["id"] == lab.ann
    assert lab.secret not in answer.text


def test_what_was_not_signed_by_the_key_is_nobodys(lab: Keyed) -> None:
    wrong = lab.signed()
    answers = [
        lab.tell(lab.signed(secret="another")),
        lab.tell({**wrong, "access": "unknown"}),
        # An unknown key is not one whose secret is its own name.
        lab.tell({**lab.signed(secret="unknown"), "access": "unknown"}),
        lab.tell({**wrong, "path": "/elsewhere"}),
    ]
    assert [one.status_code for one in answers] == [401] * 4
    assert len({one.json()["error"]["message"] for one in answers}) == 1


@pytest.mark.parametrize(("age", "status"), [(0, 200), (890, 200), (-890, 200), (910, 401), (-910, 401), (1e6, 401)])
def test_a_signed_request_is_good_for_a_quarter_of_an_hour(lab: Keyed, age: float, status: int) -> None:
    assert lab.tell(lab.signed(age=age)).status_code == status


def test_only_a_service_may_ask(lab: Keyed) -> None:
    assert lab.tell(lab.signed(), lab.log_in("ann", "ann-pw", on_project(lab.p1))).status_code == 403
    assert lab.ask("POST", "/ec2tokens", "", {"credentials": lab.signed()}).status_code == 401


def test_a_string_that_s3_signs(lab: Keyed) -> None:
    text = b"GET\n\n\nMon, 30 Nov 2026 00:00:00 +0000\n/bucket/thing"
    made = base64.b64encode(hmac.new(lab.secret.encode(), text, hashlib.sha1).digest()).decode()
    body: Json = {"access": lab.access, "signature": made, "token": base64.urlsafe_b64encode(text).decode()}
    admin = lab.log_in(scope=SYSTEM)
    answer = lab.ask("POST", "/s3tokens", admin, {"credentials": body})
    assert answer.status_code == 200, answer.text
    assert answer.json()["token"]["user"]["id"] == lab.ann
    body["signature"] = made[::-1]
    assert lab.ask("POST", "/s3tokens", admin, {"credentials": body}).status_code == 401
    body["token"] = "no base 64!"
    assert lab.ask("POST", "/s3tokens", admin, {"credentials": body}).status_code == 400


@pytest.mark.parametrize(
    "params", [{}, {"SignatureVersion": "0"}, {"SignatureVersion": "2"}, {"SignatureVersion": "2", "Timestamp": "now"}]
)
def test_what_is_no_signature_is_said(lab: Keyed, params: dict[str, str]) -> None:
    answer = lab.tell({**lab.signed(), "params": params})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_a_key_ends_with_itself_and_with_its_user(lab: Keyed) -> None:
    admin = lab.log_in(scope=SYSTEM)
    lab.good("PATCH", f"/users/{lab.ann}", admin, {"user": {"enabled": False}})
    assert lab.tell(lab.signed()).status_code == 401
    lab.good("PATCH", f"/users/{lab.ann}", admin, {"user": {"enabled": True}})
    assert lab.tell(lab.signed()).status_code == 200
    lab.good("DELETE", f"/users/{lab.ann}/credentials/OS-EC2/{lab.access}", admin)
    assert lab.tell(lab.signed()).status_code == 401
