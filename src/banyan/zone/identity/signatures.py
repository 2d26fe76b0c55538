"""Tokens for who signed a request with an EC2 key, asked for by the service that got the request."""

from __future__ import annotations

from collections.abc import Mapping

from banyan.core.errors import BadInput
from banyan.core.principal import Principal
from banyan.trust import aws_signatures
from banyan.trust.aws_signatures import Request
from banyan.zone.identity.logins import Issued, Logins


class Signatures:
    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    async def ec2(
        self,
        who: Principal,
        access: str,
        signature: str,
        *,
        verb: str,
        host: str,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        body_hash: str,
    ) -> Issued:
        """Raises Unauthenticated, BadInput("bad-signature"), Refused("forbidden")."""
        request = Request(verb, host, path, signature, params, headers, body_hash)
        at = aws_signatures.made_at(request)
        if at is None:
            # Else it would be good for ever, to whoever saw it.
            raise BadInput("bad-signature", "a signed request says when it was: Timestamp, or X-Amz-Date")
        return await self._logins.by_signature(who, access, lambda key: aws_signatures.signed(request, key), at)

    async def s3(self, who: Principal, access: str, signature: str, token: str) -> Issued:
        """`token`: the string that was signed, in base 64. Its receiver looks at the date in it. Raises as `ec2`."""
        text = aws_signatures.text_of(token)
        return await self._logins.by_signature(
            who, access, lambda key: aws_signatures.signed_text(text, signature, key), None
        )
