"""Whether the API's certificate on disk still says what a new one would say. Pure."""

from __future__ import annotations

from cryptography import x509

from banyan.core.time import Wall

# A certificate with less than this left is made anew, seconds.
LEAST_LEFT = 30 * 86_400.0


def still_fits(held: bytes, fresh: bytes, now: Wall) -> bool:
    """True if PEM `held` has the key and the names of `fresh`, and long to live; False for what cannot be read."""
    try:
        old, new = x509.load_pem_x509_certificate(held), x509.load_pem_x509_certificate(fresh)
        names = [c.extensions.get_extension_for_class(x509.SubjectAlternativeName).value for c in (old, new)]
    except (ValueError, x509.ExtensionNotFound):
        return False
    left = old.not_valid_after_utc.timestamp() - now
    return old.public_key() == new.public_key() and names[0] == names[1] and left > LEAST_LEFT
