"""`openstack`: an OpenStack cloud that stands already, through openstacksdk and an entry of clouds.yaml.

`options` is what a person may set; `driver` the port; `reading` what a scan reads and `inventory` how it reads
placement; `hands` takes orders, with `builds`, `grounds`, `stock`, `lookout`, `nodes` and `waiting`; `asking`, `access`
and `lanes` are the I/O, from pace to sockets; the others are pure. README.md answers docs/contracts/driver.md. In mode
`observe` it must never send anything but GET and token requests, in mode `place` nothing that `writes` does not list.
"""

from banyan.core.deed import Operation
from banyan.drivers.openstack.driver import OpenStackDriver
from banyan.drivers.openstack.hands import OPERATIONS
from banyan.drivers.openstack.options import OpenStackOptions
from banyan.drivers.registry import Registration

REGISTRATION = Registration(
    kind="openstack",
    summary="an OpenStack cloud that stands already (Train or newer), observed, or placed on, through its own APIs",
    options=OpenStackOptions,
    make=OpenStackDriver,
    operations=OPERATIONS,
    without={
        Operation.SNAPSHOT: "its data would stay in the cloud, not in the image promised above (decision 36)",
        Operation.ATTACH: "its servers have no ports of ours in the cloud's network service yet (decision 36)",
        Operation.DETACH: "its servers have no ports of ours in the cloud's network service yet (decision 36)",
    },
)

__all__ = ["REGISTRATION", "OpenStackDriver", "OpenStackOptions"]
