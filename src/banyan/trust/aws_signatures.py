"""Signatures of requests as Amazon's protocols have them: whether one was made with a secret key. Pure.

EC2: versions 2 and 4 (docs.aws.amazon.com, "Signature Version 2 signing process" and "Create a signed AWS API
request"); the two before are refused, since they sign too little. S3: a string to sign, HMAC-SHA1 of old or version 4.
A comparison takes the same time whatever differs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from banyan.core.errors import BadInput
from banyan.core.secret import Secret

ALGORITHM: Final = "AWS4-HMAC-SHA256"
# An instant as each version writes it.
_FORMATS: Final = ("%Y%m%dT%H%M%SZ", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%S")
_SCOPE: Final = re.compile(r"[^/]{1,128}/(\d{8})/([^/]{1,64})/([^/]{1,64})/aws4_request\Z")
_PART: Final = re.compile(r"(\w+)=([^,\s]+)")


@dataclass(frozen=True, slots=True)
class Request:
    """What was signed, as the service that got the request tells it. `host` may have a port."""

    verb: str
    host: str
    path: str
    signature: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body_hash: str = ""


def made_at(request: Request) -> float | None:
    """When it says that it was signed, in seconds since 1970; None if it does not say. Only from what a signature of
    its version covers: version 2 signs no headers, and whoever overheard it could date it anew. Raises BadInput."""
    text = _stamp(request) if _is_version_4(request) else request.params.get("Timestamp", "")
    return _instant(text) if text else None


def signed(request: Request, secret: Secret) -> bool:
    """True if `secret` made the signature, for the host with its port or without. Raises BadInput for a version that
    is not verified, or parts that are missing."""
    hosts = {request.host, request.host.rpartition(":")[0] or request.host}
    make = _maker(request)
    return any(_same(make(host, secret), request.signature) for host in sorted(hosts))


def signed_text(text: bytes, signature: str, secret: Secret) -> bool:
    """The same of S3's string to sign."""
    if not text.startswith(ALGORITHM.encode()):
        return _same(_base64(hmac.new(secret.reveal(), text, hashlib.sha1).digest()), signature)
    lines = text.decode(errors="replace").split("\n")
    if len(lines) != 4:
        raise BadInput("bad-signature", f"a string to sign of {ALGORITHM} has four lines, got {len(lines)}")
    date, region, service = _scope(f"x/{lines[2]}")
    key = _key(secret, date, region, service)
    return _same(hmac.new(key, text, hashlib.sha256).hexdigest(), signature)


def _maker(request: Request) -> Callable[[str, Secret], str]:
    if _is_version_4(request):
        return lambda host, secret: _version_4(request, host, secret)
    version = request.params.get("SignatureVersion", "")
    if version == "2":
        return lambda host, secret: _version_2(request, host, secret)
    raise BadInput("bad-signature", f"signatures of version 2 and 4 are verified, got {version[:20] or 'none'!r}")


def _is_version_4(request: Request) -> bool:
    authorization = _lower(request.headers).get("authorization", "")
    return authorization.startswith(ALGORITHM) or request.params.get("X-Amz-Algorithm") == ALGORITHM


def _stamp(request: Request) -> str:
    """Of version 4: the second line of what is signed."""
    return _lower(request.headers).get("x-amz-date") or request.params.get("X-Amz-Date", "")


def _version_2(request: Request, host: str, secret: Secret) -> str:
    pairs = "&".join(
        f"{quote(name, safe='-_~')}={quote(value, safe='-_~')}"
        for name, value in sorted(request.params.items())
        if name != "Signature"
    )
    text = f"{request.verb}\n{host}\n{request.path}\n{pairs}".encode()
    digest = hashlib.sha256 if request.params.get("SignatureMethod") == "HmacSHA256" else hashlib.sha1
    return _base64(hmac.new(secret.reveal(), text, digest).digest())


def _version_4(request: Request, host: str, secret: Secret) -> str:
    headers = _lower(request.headers)
    authorization = headers.get("authorization", "")
    if authorization.startswith(ALGORITHM):
        parts = dict(_PART.findall(authorization))
        scope, names = parts.get("Credential", ""), parts.get("SignedHeaders", "")
    else:
        scope, names = request.params.get("X-Amz-Credential", ""), request.params.get("X-Amz-SignedHeaders", "")
    date, region, service = _scope(scope)
    headers["host"] = host
    stamp = _stamp(request)
    if not stamp:
        raise BadInput("bad-signature", "a signature of version 4 needs X-Amz-Date")
    query = (
        ""
        if request.verb.upper() == "POST"
        else "&".join(
            f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
            for name, value in sorted(request.params.items())
            if name != "X-Amz-Signature"
        )
    )
    heads = "".join(f"{name}:{headers.get(name, '').strip()}\n" for name in names.split(";") if name)
    canonical = f"{request.verb}\n{request.path}\n{query}\n{heads}\n{names}\n{request.body_hash}"
    text = "\n".join(
        (ALGORITHM, stamp, f"{date}/{region}/{service}/aws4_request", hashlib.sha256(canonical.encode()).hexdigest())
    )
    return hmac.new(_key(secret, date, region, service), text.encode(), hashlib.sha256).hexdigest()


def _scope(text: str) -> tuple[str, str, str]:
    found = _SCOPE.match(text)
    if found is None:
        raise BadInput("bad-signature", "the scope of a signature is KEY/DATE/REGION/SERVICE/aws4_request")
    return found.group(1), found.group(2), found.group(3)


def _key(secret: Secret, date: str, region: str, service: str) -> bytes:
    key = b"AWS4" + secret.reveal()
    for part in (date, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _instant(text: str) -> float:
    for form in _FORMATS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    raise BadInput("bad-signature", f"a date is written as 20260101T000000Z or 2026-01-01T00:00:00Z, got {text[:40]!r}")


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _same(a: str, b: str) -> bool:
    return hmac.compare_digest(a.encode(), b.encode())


def text_of(token: str) -> bytes:
    """S3's string to sign, as it comes: base64 of either alphabet. Raises BadInput."""
    try:
        return base64.b64decode(token.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput("bad-signature", "the token of an S3 request is its string to sign in base 64") from error
