"""What a flavor asks of a host."""

from __future__ import annotations

import pytest

from banyan.core.errors import BadInput
from banyan.core.needs import of_flavor
from banyan.core.order import FlavorSnapshot

FLAVOR = FlavorSnapshot("1", "m", 2, 512, 10, 5, 1_500)


def test_disk_is_root_ephemeral_and_swap() -> None:
    assert of_flavor(FLAVOR).amounts == {"vcpu": 2, "memory_mib": 512, "disk_gib": 17}
    assert of_flavor(FlavorSnapshot("1", "m", 1, 64)).amounts == {"vcpu": 1, "memory_mib": 64}


def with_specs(**specs: str) -> FlavorSnapshot:
    return FlavorSnapshot("1", "m", 2, 512, extra_specs={key.replace("__", ":"): value for key, value in specs.items()})


def test_extra_specs_replace_amounts_and_bind_traits() -> None:
    found = of_flavor(
        with_specs(
            resources__VCPU="0", resources__CUSTOM_GPU="2", trait__HW_A="required", trait__HW_B="forbidden", hw__x="y"
        )
    )
    assert found.amounts == {"memory_mib": 512, "custom_gpu": 2}
    assert (found.required, found.forbidden) == (("HW_A",), ("HW_B",))


def test_an_image_binds_traits_too_and_takes_no_resources() -> None:
    found = of_flavor(FLAVOR, {"trait:HW_C": "required", "resources:VCPU": "9", "os": "x"})
    assert (found.amounts["vcpu"], found.required) == (2, ("HW_C",))


@pytest.mark.parametrize(
    "specs",
    [
        {"resources__VCPU": "many"},
        {"resources__VCPU": "-1"},
        {"resources__VCPU": "9" * 11},
        {"resources__v": "1"},
        {"trait__HW_A": "perhaps"},
        {"trait__hw a": "required"},
    ],
)
def test_what_can_not_be_meant_is_named(specs: dict[str, str]) -> None:
    with pytest.raises(BadInput) as refused:
        of_flavor(with_specs(**specs))
    assert refused.value.code == "bad-extra-spec"
    assert next(iter(specs)).replace("__", ":") in refused.value.text
