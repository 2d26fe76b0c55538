"""Settings: the parent that they name, the public URL, and what is served."""

from __future__ import annotations

import pytest

from banyan.core.errors import BadInput
from banyan.serve.config import load

PIN = "ab" * 32


def test_a_parent_is_its_addresses_and_its_pin() -> None:
    flags = {"data": "/nowhere", "link.parent": ["a:1", "b:2"], "link.parent_pin": PIN}
    assert load(None, flags).for_parent() == (("a:1", "b:2"), b"\xab" * 32)
    assert load(None, {"data": "/nowhere"}).for_parent() is None


@pytest.mark.parametrize(
    ("addresses", "pin"), [(["a:1"], None), ([], PIN), (["a:1"], "ab"), (["a:1"], "no"), (["a:1"] * 9, PIN)]
)
def test_half_a_parent_is_refused_by_both_its_names(addresses: list[str], pin: str | None) -> None:
    settings = load(None, {"data": "/nowhere", "link.parent": addresses or None, "link.parent_pin": pin})
    with pytest.raises(BadInput, match=r"link.parent .* link.parent_pin") as refused:
        settings.for_parent()
    assert refused.value.code == "bad-setting"


def test_the_public_url_is_an_origin() -> None:
    def url(text: str | None) -> str:
        return load(None, {"data": "/nowhere", "api.public_url": text}).public_url()

    assert url(None) == "" and url("https://cloud.example:8780/") == "https://cloud.example:8780"
    assert url("http://[2001:db8::1]:80") == "http://[2001:db8::1]:80"
    for wrong in ("cloud.example", "https://", "ftp://x", "https://x/path", "https://x?y"):
        with pytest.raises(BadInput, match=r"api.public_url") as refused:
            url(wrong)
        assert refused.value.code == "bad-setting"


def test_identity_is_served_unless_it_is_turned_off() -> None:
    assert load(None, {"data": "/nowhere"}).identity.enabled
    assert not load(None, {"data": "/nowhere", "identity.enabled": False}).identity.enabled
    with pytest.raises(BadInput, match=r"token_life"):
        load(None, {"data": "/nowhere", "identity.token_life": 5})
