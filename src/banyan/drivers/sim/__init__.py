"""`sim`: a rack of simulated hosts, for trying Banyan out, for measuring it, and for rehearsing faults.

`options` is what a person may set, `script` what happens when, `fleet` which hosts and guests there are at an
instant (both pure), `driver` the port. README.md beside this file answers docs/contracts/driver.md. It must
never need anything outside the process.
"""

from banyan.drivers.registry import Registration
from banyan.drivers.sim.driver import SimDriver
from banyan.drivers.sim.options import SimOptions

REGISTRATION = Registration(
    kind="sim",
    summary="simulated hosts and servers from a seed, with scripted faults",
    options=SimOptions,
    make=SimDriver,
    operations=SimDriver.operations,
)

__all__ = ["REGISTRATION", "SimDriver", "SimOptions"]
