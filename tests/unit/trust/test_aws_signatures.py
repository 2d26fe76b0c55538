"""Signatures of Amazon's protocols, against examples that Amazon published, and against what is not signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace

import pytest

from banyan.core.errors import BadInput
from banyan.core.secret import Secret
from banyan.trust.aws_signatures import Request, made_at, signed, signed_text, text_of

# The key of Amazon's own examples.
KEY = Secret(b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
OTHER = Secret(b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEZ")
EMPTY = hashlib.sha256(b"").hexdigest()

# "get-vanilla" of the test suite of signature version 4.
VANILLA = Request(
    "GET",
    "example.amazonaws.com",
    "/",
    "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    headers={
        "X-Amz-Date": "20150830T123600Z",
        "Authorization": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    },
    body_hash=EMPTY,
)


def version_2(host: str = "ec2.example.com:8773", method: str = "HmacSHA256") -> Request:
    params = {
        "Action": "DescribeInstances", "SignatureMethod": method, "SignatureVersion": "2", "AWSAccessKeyId": "a b~",
        "Timestamp": "2026-11-30T00:00:00Z",
    }  # fmt: skip
    pairs = (
        "AWSAccessKeyId=a%20b~&Action=DescribeInstances&SignatureMethod=" + method + "&SignatureVersion=2"
        "&Timestamp=2026-11-30T00%3A00%3A00Z"
    )
    digest = hashlib.sha256 if method == "HmacSHA256" else hashlib.sha1
    text = f"GET\nec2.example.com:8773\n/services/Cloud\n{pairs}".encode()
    made = base64.b64encode(hmac.new(KEY.reveal(), text, digest).digest()).decode()
    return Request("GET", host, "/services/Cloud", made, params | {"Signature": made})


def test_amazons_own_example_holds() -> None:
    assert signed(VANILLA, KEY)
    assert made_at(VANILLA) == 1440938160.0


@pytest.mark.parametrize("method", ["HmacSHA256", "HmacSHA1"])
def test_version_2(method: str) -> None:
    request = version_2(method=method)
    assert signed(request, KEY)
    assert not signed(request, OTHER)
    assert made_at(request) == 1795996800.0


@pytest.mark.parametrize(
    "changed",
    [{"verb": "DELETE"}, {"path": "/x"}, {"host": "elsewhere"}, {"signature": "0" * 64}, {"signature": ""},
     {"body_hash": "0" * 64}, {"params": {"Action": "RunInstances"}}],
)  # fmt: skip
def test_what_was_signed_is_what_was_asked(changed: dict[str, object]) -> None:
    assert not signed(replace(VANILLA, **changed), KEY)
    assert not signed(VANILLA, OTHER)


def test_a_host_may_come_with_its_port() -> None:
    assert signed(replace(VANILLA, host="example.amazonaws.com:8773"), KEY)
    assert not signed(replace(VANILLA, host="example.amazonaws.org:8773"), KEY)


@pytest.mark.parametrize(
    "request_",
    [Request("GET", "h", "/", "s"), Request("GET", "h", "/", "s", {"SignatureVersion": "0"}),
     Request("GET", "h", "/", "s", {"X-Amz-Algorithm": "AWS4-HMAC-SHA256"}),
     replace(VANILLA, headers={"Authorization": VANILLA.headers["Authorization"]})],
)  # fmt: skip
def test_what_is_no_signature_is_said(request_: Request) -> None:
    with pytest.raises(BadInput):
        signed(request_, KEY)


def test_a_date_that_is_none_is_said() -> None:
    with pytest.raises(BadInput, match="yesterday"):
        made_at(Request("GET", "h", "/", "s", {"Timestamp": "yesterday"}))
    assert made_at(Request("GET", "h", "/", "s")) is None


def test_strings_to_sign_of_s3() -> None:
    old = b"GET\n\n\nTue, 27 Mar 2007 19:36:42 +0000\n/bucket/photos/puppy.jpg"
    made = base64.b64encode(hmac.new(KEY.reveal(), old, hashlib.sha1).digest()).decode()
    assert signed_text(old, made, KEY)
    assert not signed_text(old, made, OTHER)
    assert not signed_text(old + b"x", made, KEY)
    canonical = hashlib.sha256(
        f"GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n{EMPTY}".encode()
    ).hexdigest()
    new = f"AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n{canonical}".encode()
    assert signed_text(new, VANILLA.signature, KEY)
    assert not signed_text(new, VANILLA.signature, OTHER)
    for bad in (b"AWS4-HMAC-SHA256", b"AWS4-HMAC-SHA256\na\nb\nc"):
        with pytest.raises(BadInput):
            signed_text(bad, "s", KEY)
    assert text_of(base64.urlsafe_b64encode(b"\xff\xfe?").decode()) == b"\xff\xfe?"
    with pytest.raises(BadInput):
        text_of("no base 64!")


def test_when_a_request_was_signed_is_read_from_what_is_signed() -> None:
    """Version 2 signs no headers: whoever overheard a request could send it for ever, dated anew."""
    overheard = version_2()
    for late in ({"X-Amz-Date": "20310101T000000Z"}, {"x-amz-date": "20310101T000000Z"}):
        again = replace(overheard, headers=late)
        assert signed(again, KEY) and made_at(again) == made_at(overheard) == 1_795_996_800.0
    undated = {name: value for name, value in overheard.params.items() if name != "Timestamp"}
    assert made_at(replace(overheard, params=undated, headers=late)) is None
    # Version 4 signs the header's, where it has both; a Timestamp is nothing to it.
    other = replace(VANILLA, params={**VANILLA.params, "Timestamp": "2031-01-01T00:00:00Z"})
    assert made_at(other) == made_at(VANILLA)
