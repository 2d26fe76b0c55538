"""`openstack`: an OpenStack cloud that stands already, read through openstacksdk and an entry of clouds.yaml.

`options` is what a person may set; `driver` the port; `reading` what a scan reads and `inventory` how it
reads placement; `asking`, `access` and `lanes` are the I/O, from pace to sockets; `translate`, `shapes`,
`endpoints`, `microversions` and `reasons` are pure. README.md answers docs/contracts/driver.md. It must
never send anything but GET and token requests.
"""

from banyan.drivers.openstack.driver import OpenStackDriver
from banyan.drivers.openstack.options import OpenStackOptions
from banyan.drivers.registry import Registration

REGISTRATION = Registration(
    kind="openstack",
    summary="an OpenStack cloud that stands already (Train or newer), observed through its own APIs",
    options=OpenStackOptions,
    make=OpenStackDriver,
)

__all__ = ["REGISTRATION", "OpenStackDriver", "OpenStackOptions"]
