"""Orders: the same request has the same id, numbers that can not be meant are refused, nothing secret is shown."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from banyan.core.errors import BadInput
from banyan.core.ids import ZoneCode
from banyan.core.order import (
    MAX_GUESTS,
    Claim,
    Ground,
    GroupPolicy,
    Hints,
    NamedHost,
    Order,
    Placed,
    Policy,
    Specification,
    add_reasons,
    arguments_digest,
    check_order,
    order_id,
    placed,
)

ZONE = ZoneCode(7)
SPECIFICATION = Specification("web", {"vcpu": 2, "memory_mib": 4096}, ("HW_CPU_X86_AVX2",))


def order(specification: Specification = SPECIFICATION, **more: int | Policy | tuple[str, ...]) -> Order:
    return msgspec.structs.replace(Order("a" * 32, ZONE, "project", "user", specification), **more)


def test_a_retry_has_the_same_id_and_nobody_elses() -> None:
    asked = (ZONE, "project", "user", "key")
    assert order_id(*asked) == order_id(*asked)
    others = [
        (ZoneCode(8), "project", "user", "key"),
        (ZONE, "projectuser", "", "key"),
        (ZONE, "project", "userkey", ""),
        (ZONE, "project", "user", "key2"),
    ]
    assert len({order_id(*other) for other in [asked, *others]}) == 5


def test_other_arguments_under_the_same_key_are_seen_and_the_order_of_keys_is_not() -> None:
    def described(metadata: dict[str, str]) -> Specification:
        return msgspec.structs.replace(SPECIFICATION, metadata=metadata)

    first = arguments_digest(order(described({"a": "1", "b": "2"})))
    assert first == arguments_digest(order(described({"b": "2", "a": "1"}), epoch=9))
    assert first != arguments_digest(order(described({"a": "1", "b": "3"})))
    assert first != arguments_digest(order(described({"a": "1", "b": "2"}), most=2))


def test_an_order_travels_whole_and_a_newer_ones_fields_are_ignored() -> None:
    hints = Hints("g", GroupPolicy.SOFT_ANTI_AFFINITY, labels={"site": "b"})
    sent = order(msgspec.structs.replace(SPECIFICATION, hints=hints), most=9, policy=Policy.PACK)
    packed = msgspec.msgpack.encode(sent)
    assert msgspec.msgpack.decode(packed, type=Order) == sent
    longer = msgspec.msgpack.encode([*msgspec.msgpack.decode(packed), "newer"])
    assert msgspec.msgpack.decode(longer, type=Order) == sent


@dataclass(frozen=True)
class Wrong:
    order: Order
    says: str


WRONG = [
    Wrong(order(least=0), "from 1 to"),
    Wrong(order(least=3, most=2), "from 1 to"),
    Wrong(order(most=MAX_GUESTS + 1), "from 1 to"),
    Wrong(order(Specification("x", {})), "some of at least one"),
    Wrong(order(Specification("x", {"vcpu": 0})), "some of at least one"),
    Wrong(order(Specification("x", {"vcpu": 1, "disk_gib": -1})), "less than nothing"),
    Wrong(order(Specification("x", {"vcpu": 1}, ("T",), ("T",))), "both required and forbidden"),
    Wrong(order(Specification("x", {"vcpu": 1}, hints=Hints("g"))), "together with its policy"),
    Wrong(order(Specification("x", {"vcpu": 1}, hints=Hints(policy=GroupPolicy.AFFINITY))), "policy of a group"),
    Wrong(order(Specification("x", {"vcpu": 1}, hints=Hints(per_host=0))), "to a host"),
    Wrong(order(Specification("x", {"vcpu": 1}, hints=Hints(same_host=("a",) * 65))), "at most 64 guests"),
    Wrong(
        order(Specification("x", {"vcpu": 1}, hints=Hints(hosts=(NamedHost("", "a"),) * 1_001))), "at most 1,000 hosts"
    ),
    Wrong(order(Specification("x", {"vcpu": 1}, user_data="a" * 65_536)), "user data"),
    Wrong(order(ids=("a", "b")), "exactly as many"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.says)
def test_numbers_that_can_not_be_meant_are_refused(wrong: Wrong) -> None:
    with pytest.raises(BadInput, match=wrong.says):
        check_order(wrong.order)


def test_numbers_that_can_be_meant_pass() -> None:
    for well in (order(), order(least=2, most=MAX_GUESTS), order(least=2, most=2, ids=("a", "b"))):
        assert check_order(well) is well


def test_user_data_is_never_shown() -> None:
    secret = "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogeA=="
    assert secret not in repr(order(msgspec.structs.replace(SPECIFICATION, user_data=secret)))


def test_ids_go_to_the_places_of_a_claim_in_turn() -> None:
    claim = Claim("o", ("h1", "h2"), (2, 1), (5, 1), Ground.MOST_ROOM)
    assert placed(claim, ("a", "b", "c")) == (
        Placed(("a", "b"), "h1", Ground.MOST_ROOM, 5),
        Placed(("c",), "h2", Ground.MOST_ROOM, 1),
    )
    with pytest.raises(ValueError, match="3 places"):
        placed(claim, ("a", "b"))


def test_reasons_add_up_with_the_most_frequent_first() -> None:
    assert list(add_reasons({"full:vcpu": 2, "down": 1}, {"down": 9, "named": 1}).items()) == [
        ("down", 10),
        ("full:vcpu", 2),
        ("named", 1),
    ]
