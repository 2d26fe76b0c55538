"""Kinds come from entry points; what is wrong is refused by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import msgspec
import pytest

from banyan.core.errors import BadInput, Broken
from banyan.core.ports import RackSpec
from banyan.core.share import Share
from banyan.drivers.contract import SeededIds
from banyan.drivers.registry import DriverContext, Drivers, Registration, Registry
from banyan.drivers.sim import REGISTRATION, SimDriver
from tests.unit.drivers.fakes import StillClock, context

NOT_A_REGISTRATION = 7


class Knobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    depth: int
    password: str = ""


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "banyan.drivers")


def drivers(registry: Registry) -> Drivers:
    return Drivers(registry, StillClock(), SeededIds())


def test_built_in_kinds_are_found_as_strangers_are() -> None:
    installed = Registry.installed()
    assert {"sim", "openstack"} <= set(installed.kinds())
    assert installed.get("sim") is REGISTRATION


def test_a_kind_is_imported_only_when_asked_for() -> None:
    registry = Registry(found=[entry("sim", "banyan.drivers.sim:REGISTRATION"), entry("bad", "no.such.module:X")])
    assert list(registry.kinds()) == ["bad", "sim"]
    assert registry.get("sim").kind == "sim"
    with pytest.raises(Broken, match=r"'bad'.*no\.such\.module.*cannot be loaded") as refused:
        registry.get("bad")
    assert refused.value.code == "driver-broken"


def test_an_unknown_kind_names_near_ones_and_all() -> None:
    with pytest.raises(BadInput, match=r"no driver 'simm' \(did you mean sim\?\); installed are sim") as refused:
        Registry([REGISTRATION]).get("simm")
    assert refused.value.code == "no-driver"


def test_a_kind_that_two_distributions_claim_is_refused() -> None:
    twice = [entry("sim", "banyan.drivers.sim:REGISTRATION"), entry("sim", "other:REGISTRATION")]
    with pytest.raises(BadInput, match="uninstall all but one") as refused:
        Registry(found=twice).get("sim")
    assert refused.value.code == "driver-twice"


@pytest.mark.parametrize("target", ["NOT_A_REGISTRATION", "Knobs"])
def test_an_entry_point_must_name_a_registration(target: str) -> None:
    registry = Registry(found=[entry("odd", f"tests.unit.drivers.test_registry:{target}")])
    with pytest.raises(Broken, match="must name a Registration"):
        registry.get("odd")


def test_an_entry_point_of_another_kind_is_refused() -> None:
    registry = Registry(found=[entry("libvirt", "banyan.drivers.sim:REGISTRATION")])
    with pytest.raises(Broken, match="'libvirt'.*must name a Registration of that kind"):
        registry.get("libvirt")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hots": 3}, r"no option 'hots' \(did you mean hosts\?\)"),
        ({"hosts": "many"}, "option hosts: expected `int`"),
        ({"hosts": -1}, "hosts is from 0 to 1,000,000, got -1"),
        ({"classes": [{"name": "a", "vcpu": "x"}]}, r"option classes\[0\].vcpu: expected `int`"),
        ({"classes": [{"name": "a", "size": 1}]}, r"option classes\[0\]: .*unknown field `size`"),
        ({"script": [{"at": 1, "do": "explode"}]}, r"option script\[0\].do: invalid value 'explode'"),
    ],
)
def test_wrong_options_are_named_with_the_rack(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=f"rack 'lab': driver sim.*{said}") as refused:
        drivers(Registry([REGISTRATION])).make(RackSpec("lab", "sim", options))
    assert refused.value.code == "bad-driver-option"


def test_a_wrong_value_is_never_repeated() -> None:
    kind = Registration("knobs", "", Knobs, lambda options, given: SimDriver(REGISTRATION.options(), given))
    with pytest.raises(BadInput) as refused:
        kind.open({"depth": "hunter2"}, context())
    assert "hunter2" not in refused.value.text


def test_text_from_flags_is_as_good_as_a_number() -> None:
    driver = drivers(Registry([REGISTRATION])).make(RackSpec("lab", "sim", {"hosts": "3"}))
    assert driver.kind == "sim"


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), 1e9])
def test_the_rate_of_requests_is_bounded(rate: float) -> None:
    with pytest.raises(BadInput, match="requests_per_second"):
        drivers(Registry([REGISTRATION])).make(RackSpec("lab", "sim", requests_per_second=rate))


def test_a_driver_is_given_what_the_settings_say() -> None:
    given: list[DriverContext] = []

    def make(options: Knobs, its: DriverContext) -> SimDriver:
        given.append(its)
        return SimDriver(REGISTRATION.options(), its)

    share = Share(hosts=("a*",))
    host = drivers(Registry([Registration("knobs", "", Knobs, make)]))
    host.make(RackSpec("lab", "knobs", {"depth": 1}, share=share, requests_per_second=3.0))
    assert (given[0].rack, given[0].share, given[0].requests_per_second) == ("lab", share, 3.0)
