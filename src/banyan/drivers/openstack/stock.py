"""What a server is made of, in the cloud's own terms: its flavor, its image, its key pair. Each is found, or made once.

A flavor that somebody has is taken if it gives the same amounts and asks the same of a host; else a private one is
made, named after what it gives, so that it is found again. An image is known by its checksum, whoever put it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from banyan.core.deed import DeedFailed
from banyan.core.order import FlavorSnapshot, ImageSource, KeySnapshot, Specification
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU
from banyan.drivers.openstack import marks, shapes
from banyan.drivers.openstack.asking import Cloud
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.once import Once
from banyan.drivers.openstack.refusals import refused


class Stock:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._flavors = Once()
        self._images = Once()
        self._keys = Once()

    # --- flavors --------------------------------------------------------------------------------

    async def flavor(self, spec: Specification) -> str:
        """The id of a flavor that gives what was ordered. Raises DeedFailed, DriverUnavailable."""
        wanted = wanted_flavor(spec)
        name = flavor_name(wanted)
        return await self._flavors.get(name, lambda: self._flavor(name, wanted))

    def forget(self, spec: Specification) -> None:
        """What it is made of is looked up again: something of it was not there."""
        self._flavors.forget(flavor_name(wanted_flavor(spec)))
        if spec.image is not None:
            self._images.forget(spec.image.checksum)
        if spec.key is not None:
            self._keys.forget(key_name(spec.key))

    async def _flavor(self, name: str, wanted: FlavorSnapshot) -> str:
        found: list[shapes.Flavor] = []
        params = {"is_public": "None"}
        async for page in self._cloud.pages(Service.COMPUTE, "/flavors/detail", shapes.FlavorPage, params):
            found += page.flavors
        mine = next((flavor for flavor in found if flavor.id == name), None)
        if mine is None:
            match = next((f for f in found if f.is_public and not f.disabled and _gives(f, wanted)), None)
            if match is not None:
                return match.id
            body = {
                "id": name,
                "name": name,
                "vcpus": wanted.vcpu,
                "ram": wanted.memory_mib,
                "disk": wanted.disk_gib,
                "OS-FLV-EXT-DATA:ephemeral": wanted.ephemeral_gib,
                "swap": wanted.swap_mib,
                "os-flavor-access:is_public": False,
            }
            reply = await self._cloud.send(Service.COMPUTE, "POST", "/flavors", {"flavor": body})
            # 409: somebody else made it since it was looked for.
            if reply.status not in (200, 409):
                raise refused(self._cloud.where, Service.COMPUTE, f"make flavor {name}", reply)
        if wanted.extra_specs and (mine is None or mine.extra_specs != wanted.extra_specs):
            path, specs = f"/flavors/{name}/os-extra_specs", {"extra_specs": dict(wanted.extra_specs)}
            reply = await self._cloud.send(Service.COMPUTE, "POST", path, specs)
            if reply.status != 200:
                raise refused(self._cloud.where, Service.COMPUTE, f"set the extra specs of flavor {name}", reply)
        return name

    # --- images ---------------------------------------------------------------------------------

    async def image(self, image: ImageSource) -> str:
        """The id of an image with the same bytes. Raises DeedFailed, DriverUnavailable."""
        return await self._images.get(image.checksum, lambda: self._image(image))

    async def _image(self, image: ImageSource) -> str:
        algorithm, _, value = image.checksum.partition(":")
        if value:
            params = {"os_hash_value": value, "status": "active", "limit": "100"}
            page = await self._cloud.get(Service.IMAGE, "/images", shapes.ImagePage, params)
            for found in page.images:
                if (found.hash_algorithm, found.hash_value) == (algorithm, value) and found.status == "active":
                    return found.id
        # gap: an image that the cloud does not have is not copied into it yet: it must be there, with the same bytes
        raise DeedFailed(
            "openstack-no-image",
            f"this cloud has no image with the bytes of {image.name or image.id!r} "
            f"({image.checksum or 'no checksum'}); upload it there as well, with the same content",
        )

    # --- key pairs ------------------------------------------------------------------------------

    async def key(self, key: KeySnapshot) -> str:
        """The name of a key pair of our user with this public key."""
        name = key_name(key)
        return await self._keys.get(name, lambda: self._key(name, key))

    async def _key(self, name: str, key: KeySnapshot) -> str:
        body = {"name": name, "public_key": key.public_key, "type": key.kind}
        reply = await self._cloud.send(Service.COMPUTE, "POST", "/os-keypairs", {"keypair": body})
        # 409: it is there; its name says which key it is.
        if reply.status not in (200, 201, 409):
            raise refused(self._cloud.where, Service.COMPUTE, f"take the public key {key.name!r}", reply)
        return name


def wanted_flavor(spec: Specification) -> FlavorSnapshot:
    """The order's own, or one of its needs."""
    if spec.flavor is not None:
        return spec.flavor
    needs = spec.needs
    return FlavorSnapshot("", "", needs.get(VCPU, 0), needs.get(MEMORY_MIB, 0), needs.get(DISK_GIB, 0))


def flavor_name(wanted: FlavorSnapshot) -> str:
    """The same for all flavors that give the same, also as the id that is asked for."""
    w = wanted
    given = (w.vcpu, w.memory_mib, w.disk_gib, w.ephemeral_gib, w.swap_mib, sorted(w.extra_specs.items()))
    return f"{marks.PREFIX}{sha256(msgspec.json.encode(given)).hexdigest()[:24]}"


def key_name(key: KeySnapshot) -> str:
    """The same for all pairs with the same public key."""
    return f"{marks.PREFIX}{sha256(f'{key.kind} {key.public_key}'.encode()).hexdigest()[:24]}"


def _gives(flavor: shapes.Flavor, wanted: FlavorSnapshot) -> bool:
    swap = flavor.swap if isinstance(flavor.swap, int) else int(flavor.swap) if flavor.swap.isdecimal() else 0
    given = (flavor.vcpus, flavor.ram, flavor.disk, flavor.ephemeral, swap)
    asked = (wanted.vcpu, wanted.memory_mib, wanted.disk_gib, wanted.ephemeral_gib, wanted.swap_mib)
    specs: Mapping[str, str] = flavor.extra_specs
    return given == asked and dict(specs) == dict(wanted.extra_specs)
