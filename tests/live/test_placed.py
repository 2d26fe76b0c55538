"""A server ordered at a root by OpenStack's own SDK runs in a real cloud below, is there once, and goes again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openstack
import pytest

from tests.live.clouds import LiveCloud
from tests.live.figures import Direct
from tests.live.servers import swept
from tests.live.test_join import ended
from tests.live.zones import SETTINGS, Zone

pytestmark = pytest.mark.filterwarnings("ignore")

PLACES = '[zone]\nmode = "place"\n' + SETTINGS


@pytest.fixture
def top(clouds: tuple[LiveCloud, ...], tmp_path: Path) -> Iterator[Zone]:
    """A root, and below it a zone that places in the first cloud."""
    cloud = clouds[0]
    with ExitStack() as stack:
        stack.enter_context(swept(cloud))
        top = Zone(tmp_path, "top", ("--api-tls", "off"))
        top.start()
        stack.callback(ended, top)
        top.until("the top is up", lambda: top.ask("status"))
        code = top.ask("code", "create", "--mode", "place")
        assert isinstance(code, dict)
        code_file = tmp_path / "code"
        code_file.touch(mode=0o600)
        code_file.write_text(code["code"] + "\n")
        below = ("--driver", "openstack", "--cloud", cloud.admin, "--option", "mode=place")
        arguments = ("--join-code-file", str(code_file), *below)
        zone = Zone(tmp_path, "below", arguments, {"OS_CLIENT_CONFIG_FILE": str(cloud.clouds_file)}, PLACES)
        zone.start()
        stack.callback(ended, zone)

        def ready() -> bool | None:
            found = top.ask("zone", "list")
            return True if isinstance(found, list) and [one["state"] for one in found] == ["ready"] else None

        top.until("the zone below is ready", ready)
        yield top


def sdk_of(zone: Zone) -> Any:
    # Again: what the mark sets is undone when a library leaves a block of its own warnings out of order.
    warnings.simplefilter("ignore")
    return openstack.connect(
        auth_url=f"http://127.0.0.1:{zone.api}/identity/v3",
        username="admin",
        password=(zone.data / "admin-password").read_text().strip(),
        project_name="admin",
        user_domain_id="default",
        project_domain_id="default",
        region_name="RegionOne",
    )


def test_a_server_ordered_at_the_root_runs_in_the_cloud_once_and_goes(
    clouds: tuple[LiveCloud, ...], top: Zone, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, sdk = clouds[0], sdk_of(top)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud.clouds_file))
    theirs = openstack.connect(cloud=cloud.admin)
    direct = Direct(cloud.clouds_file, cloud.admin)
    found = next(theirs.image.images(status="active"))
    content = theirs.image.download_image(found).content
    formats = {"disk_format": found.disk_format, "container_format": found.container_format}
    image = sdk.image.create_image("tiny", data=content, **formats)
    flavor = sdk.compute.create_flavor(name="live", vcpus=1, ram=64, disk=1)
    server = sdk.compute.create_server(name="banyan-live", image_id=image.id, flavor_id=flavor.id, networks="none")

    def there() -> list[dict[str, Any]]:
        query = {"all_tenants": "True", "tags": f"banyan:{server.id}"}
        return direct.pages("compute", "/servers/detail", "servers", "compute 2.79", **query)

    try:
        server = sdk.compute.wait_for_server(server, interval=0.5, wait=120)
        assert [one.id for one in sdk.compute.servers()] == [server.id]
        (real,) = there()
        assert (real["status"], real["name"]) == ("ACTIVE", "banyan-live")
        assert real["OS-EXT-SRV-ATTR:hypervisor_hostname"] == server.hypervisor_hostname
        sdk.compute.stop_server(server)
        sdk.compute.wait_for_server(server, status="SHUTOFF", interval=0.5, wait=60)
        assert [one["status"] for one in there()] == ["SHUTOFF"]
    finally:
        sdk.compute.delete_server(server.id)
        sdk.compute.wait_for_delete(server, interval=0.5, wait=120)
    assert there() == []
