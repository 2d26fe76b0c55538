"""Names, metadata and tags of a server: what may be changed, and what is refused by name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from banyan.core.errors import BadInput, Conflict
from banyan.core.ids import RackCode, ZoneCode, guest_id
from banyan.core.order import Specification
from banyan.core.server import Address, Change, Nic, Server
from banyan.core.time import Wall
from banyan.zone.servers.changing import changed, touches_metadata

SPEC = Specification("web", {"vcpu": 1}, metadata={"a": "1", "b": "2"}, tags=("x", "y"))
ID = guest_id(1_800_000_000_000, RackCode(1), 1)
ONE = Server(ID, ZoneCode(1), "p1", "u1", "web", RackCode(1), "h1", SPEC, Wall(1.0), Wall(1.0), description="old")
NOW = Wall(9.0)


def test_a_change_is_a_new_revision_and_no_change_is_none() -> None:
    after = changed(ONE, Change(name="new", hostname="new", description=""), NOW)
    assert (after.name, after.hostname, after.description, after.revision, after.updated) == ("new", "new", "", 2, NOW)
    assert changed(ONE, Change(), NOW) is ONE
    assert changed(ONE, Change(name="web", tags=("y", "x"), metadata_merge={"a": "1"}), NOW) is ONE
    assert changed(ONE, Change(clear=("description",)), NOW).description is None


def test_metadata_and_tags_are_replaced_or_changed_one_by_one() -> None:
    assert changed(ONE, Change(metadata={"c": "3"}), NOW).spec.metadata == {"c": "3"}
    both = Change(metadata_merge={"c": "3", "a": "9"}, metadata_drop=("b", "zz"))
    assert changed(ONE, both, NOW).spec.metadata == {"a": "9", "c": "3"}
    assert changed(ONE, Change(tags=()), NOW).spec.tags == ()
    assert changed(ONE, Change(tags_add=("z",), tags_drop=("x",)), NOW).spec.tags == ("y", "z")
    nic = Nic("p", "fa:16:3e:00:00:01", "n", (Address("10.0.0.1"),))
    assert changed(ONE, Change(nics=(nic,), security_groups=("s",)), NOW).nics == (nic,)
    assert ONE.spec == SPEC, "a specification that other servers share is never changed in place"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change(name=""), "bad-name"),
        (Change(name="x" * 256), "bad-name"),
        (Change(tags=tuple(str(n) for n in range(51))), "bad-tags"),
        (Change(tags=("x" * 61,)), "bad-tags"),
        (Change(tags_add=("a/b",)), "bad-tags"),
        (Change(tags_add=("a,b",)), "bad-tags"),
        (Change(tags=("",)), "bad-tags"),
        (Change(metadata={str(n): "" for n in range(129)}), "bad-metadata"),
        (Change(metadata={"": "x"}), "bad-metadata"),
        (Change(metadata_merge={"x" * 256: ""}), "bad-metadata"),
        (Change(metadata_merge={"x": "y" * 256}), "bad-metadata"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change: Change, code: str) -> None:
    with pytest.raises(BadInput) as refused:
        changed(ONE, change, NOW)
    assert refused.value.code == code


def test_a_change_of_what_was_read_before_is_refused() -> None:
    with pytest.raises(Conflict) as refused:
        changed(replace(ONE, revision=5), Change(name="new", if_revision=4), NOW)
    assert refused.value.code == "changed"
    assert changed(replace(ONE, revision=5), Change(name="new", if_revision=5), NOW).revision == 6


def test_a_lock_keeps_metadata_only() -> None:
    assert touches_metadata(Change(metadata={}))
    assert touches_metadata(Change(metadata_drop=("a",)))
    assert not touches_metadata(Change(name="x", tags=("a",)))
