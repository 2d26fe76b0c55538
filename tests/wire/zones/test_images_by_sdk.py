"""OpenStack's own SDK against the image API of a real zone, with a server that boots from an image and becomes one."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import openstack
import pytest

from tests.wire.zones.processes import Cloud

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_the_sdk_sends_shares_imports_boots_and_deletes(tmp_path: Path) -> None:
    content = os.urandom(3_000_001)
    (tmp_path / "there").write_bytes(content)
    with Cloud(tmp_path) as cloud:
        zone = cloud.zone("top", "--api-tls", "off", hosts=2).start()
        # Again: what the mark sets is undone when a library leaves a block of its own warnings out of order.
        warnings.simplefilter("ignore")
        sdk = openstack.connect(
            auth_url=f"http://127.0.0.1:{zone.api}/identity/v3",
            username="admin",
            password=(zone.data / "admin-password").read_text().strip(),
            project_name="admin",
            user_domain_id="default",
            project_domain_id="default",
            region_name="RegionOne",
        )
        formats = {"disk_format": "raw", "container_format": "bare"}
        first = sdk.create_image("first", filename=str(tmp_path / "there"), wait=True, meta={"k": "v"}, **formats)
        assert (first.status, first.size) == ("active", len(content)) and first.properties["k"] == "v"
        sdk.image.download_image(first, output=str(tmp_path / "again"))
        assert (tmp_path / "again").read_bytes() == content
        second = sdk.image.create_image("second", data=b"12345", validate_checksum=True, **formats)
        # A page of one, so that it follows the links to the next.
        assert [one.name for one in sdk.image.images(limit=1)] == ["second", "first"]
        assert sdk.image.find_image("second").id == second.id
        sdk.image.update_image(second, name="renamed", foo="bar")
        sdk.image.add_tag(second, "t")
        changed = sdk.image.get_image(second.id)
        assert (changed.name, changed.tags, changed.properties["foo"]) == ("renamed", ["t"], "bar")
        sdk.image.add_member(second, member_id="0" * 32)
        assert [one.status for one in sdk.image.members(second)] == ["pending"]
        sdk.image.deactivate_image(second.id)
        assert sdk.image.get_image(second.id).status == "deactivated"
        sdk.image.reactivate_image(second.id)
        third = sdk.image.create_image("third", **formats)
        sdk.image.stage_image(third, data=b"staged")
        sdk.image.import_image(third, method="glance-direct")
        assert sdk.image.download_image(third).content == b"staged"
        zone.wait_until(lambda: zone.usage()["hosts"]["total"] == 2, "to be scanned")
        flavor = sdk.compute.find_flavor("m1.tiny")
        server = sdk.compute.create_server(name="web", image_id=first.id, flavor_id=flavor.id, networks="none")
        sdk.compute.wait_for_server(server, interval=0.2, wait=60)
        kept = sdk.create_image_snapshot("kept", server.id, wait=True, timeout=60)
        assert kept.status == "active" and kept.properties["base_image_ref"] == first.id
        for image in (first, second, third, kept):
            sdk.delete_image(image.id, wait=True)
        assert list(sdk.image.images()) == []
        assert [path.name for path in (zone.data / "images").iterdir()] == [".lock"]
