"""What programs do: openstacksdk, all calls on one connection as the administrator, then by an application credential.

Run in the client's own environment: `python -m dev.clients.sdk CLOUDS_YAML CLOUD`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

import openstack

from dev.clients.steps import step, want

DISK = b"a disk would be here" * 4096
WAIT = 120
USER = "sdk-user"


def main(clouds: str, name: str) -> None:
    os.environ["OS_CLIENT_CONFIG_FILE"] = clouds
    with openstack.connect(cloud=name, api_timeout=WAIT) as cloud:
        image = images(cloud)
        network = networks(cloud)
        life(cloud, image)
        wired(cloud, image, network)
        people(cloud, image)
        layer(cloud)
        with step("delete of image, router and networks"):
            cloud.image.delete_image(image)
            cloud.delete_router("sdk-router")
            for one in ("sdk-net", "sdk-outside"):
                cloud.delete_network(one)


def images(cloud: Any) -> Any:
    made = None
    with step("image.create_image, uploaded and validated"):
        made = cloud.image.create_image(
            "sdk.image",
            data=DISK,
            disk_format="raw",
            container_format="bare",
            visibility="public",
            validate_checksum=True,
        )
        made = cloud.image.get_image(made)
        want(made.status == "active" and made.checksum == hashlib.md5(DISK, usedforsecurity=False).hexdigest(), made)
    with step("image.download_image: the same bytes"):
        want(cloud.image.download_image(made).content == DISK, "other bytes")
    with step("image.download_image in pieces"):
        told = cloud.image.download_image(made, stream=True)
        want(b"".join(told.iter_content(1000)) == DISK, "other bytes")
    with step("image.update_image, add_tag, images(tag)"):
        cloud.image.update_image(made, min_ram=16, os_distro="none")
        cloud.image.add_tag(made, "sdk tag")
        want([one.id for one in cloud.image.images(tag="sdk tag")] == [made.id], "not by tag")
        want(cloud.image.get_image(made).min_ram == 16, "not changed")
    with step("image.add_member, update_member, members"):
        shared = cloud.image.create_image("sdk.shared", data=b"x", disk_format="raw", visibility="shared")
        cloud.image.add_member(shared, member_id=cloud.current_project_id)
        cloud.image.update_member(cloud.current_project_id, shared, status="accepted")
        want([one.status for one in cloud.image.members(shared)] == ["accepted"], "not accepted")
        cloud.image.delete_image(shared)
    with step("image.images by pages of one"):
        extra = cloud.image.create_image("sdk.extra", data=b"x", disk_format="raw")
        want({made.id, extra.id} <= {one.id for one in cloud.image.images(limit=1)}, "some are missing")
        cloud.image.delete_image(extra)
    return made


def networks(cloud: Any) -> Any:
    made = None
    with step("network.create_network, create_subnet"):
        made = cloud.network.create_network(name="sdk-net")
        subnet = cloud.network.create_subnet(network_id=made.id, ip_version=4, cidr="10.9.0.0/24", name="sdk-subnet")
        want(subnet.gateway_ip == "10.9.0.1", subnet)
    with step("network.create_subnet, IPv6"):
        cloud.network.create_subnet(network_id=made.id, ip_version=6, cidr="fd00:9::/64", name="sdk-six")
    with step("network.create_ports of many, ports by page"):
        ports = list(cloud.network.create_ports([{"network_id": made.id, "name": f"sdk-{n}"} for n in range(5)]))
        ids = {one.id for one in ports}
        want(ids <= {one.id for one in cloud.network.ports(network_id=made.id, limit=2)}, "some are missing")
        for one in ports:
            cloud.network.delete_port(one)
    with step("network.create_security_group, rules, default group"):
        group = cloud.network.create_security_group(name="sdk-group")
        for low, ethertype in ((22, "IPv4"), (22, "IPv6")):
            cloud.network.create_security_group_rule(
                security_group_id=group.id,
                direction="ingress",
                protocol="tcp",
                ethertype=ethertype,
                port_range_min=low,
                port_range_max=low,
            )
        rules = list(cloud.network.security_group_rules(security_group_id=group.id, direction="ingress"))
        want(len(rules) == 2, rules)
        want(cloud.network.find_security_group("default"), "no default group")
        cloud.network.delete_security_group(group)
    with step("network.create_router, gateway, interface"):
        outside = cloud.network.create_network(name="sdk-outside", is_router_external=True)
        cloud.network.create_subnet(network_id=outside.id, ip_version=4, cidr="203.0.113.0/24", is_dhcp_enabled=False)
        router = cloud.network.create_router(name="sdk-router", external_gateway_info={"network_id": outside.id})
        cloud.network.add_interface_to_router(router, subnet_id=cloud.network.find_subnet("sdk-subnet").id)
        want(cloud.network.get_router(router.id).external_gateway_info["external_fixed_ips"], "no outer address")
    with step("network.extensions, agents, quota"):
        want("router" in {one.alias for one in cloud.network.extensions()}, "no router")
        list(cloud.network.agents())
        want(cloud.network.get_quota(cloud.current_project_id).networks, "none")
    return made


def life(cloud: Any, image: Any) -> None:
    """A server without a network, through its life."""
    compute, server = cloud.compute, None
    with step("compute.create_server, networks none, wait_for_server"):
        flavor = compute.find_flavor("m1.tiny")
        server = compute.create_server(
            name="sdk.server 1",
            image_id=image.id,
            flavor_id=flavor.id,
            networks="none",
            metadata={"a": "b"},
            tags=["one"],
            description="by the SDK",
            user_data="IyEvYmluL3No",
        )
        server = compute.wait_for_server(server, wait=WAIT)
        want(server.availability_zone == "edge" and server.description == "by the SDK", server)
    with step("compute.get_server by a name that is no id: 404"):
        want(compute.find_server("no such server") is None, "found")
        want(compute.find_server("sdk.server 1").id == server.id, "not found")
    with step("compute.servers: by name, by tag, in pages of one"):
        want([one.id for one in compute.servers(name="^sdk\\.server")] == [server.id], "not by name")
        want([one.id for one in compute.servers(tags="one")] == [server.id], "not by tag")
        want(server.id in {one.id for one in compute.servers(limit=1)}, "not in pages")
        want(server.id in {one.id for one in compute.servers(details=False, all_projects=True)}, "not of all")
    with step("compute.set_server_metadata, delete_server_metadata"):
        compute.set_server_metadata(server, c="d")
        compute.delete_server_metadata(server.id, ["a"])
        want(compute.get_server_metadata(server.id).metadata == {"c": "d"}, "others")
    with step("compute.add_tag_to_server, remove_tags_from_server"):
        compute.add_tag_to_server(server, "two")
        want(set(compute.get_server(server).tags) == {"one", "two"}, "others")
        compute.remove_tags_from_server(server)
    with step("compute.update_server"):
        compute.update_server(server, name="sdk.renamed")
        want(compute.get_server(server).name == "sdk.renamed", "old name")
    for verb, words, status in (
        ("stop_server", (), "SHUTOFF"),
        ("start_server", (), "ACTIVE"),
        ("reboot_server", ("SOFT",), "ACTIVE"),
        ("reboot_server", ("HARD",), "ACTIVE"),
        ("pause_server", (), "PAUSED"),
        ("unpause_server", (), "ACTIVE"),
        ("suspend_server", (), "SUSPENDED"),
        ("resume_server", (), "ACTIVE"),
        ("shelve_server", (), "SHELVED_OFFLOADED"),
        ("unshelve_server", (), "ACTIVE"),
        ("rebuild_server", ("", "", image and image.id), "ACTIVE"),
    ):
        with step(f"compute.{verb}{' ' + words[0] if words else ''}"):
            if verb == "rebuild_server":
                compute.rebuild_server(server, image=image.id, name="sdk.rebuilt")
            else:
                getattr(compute, verb)(server, *words)
            # A server that is held already is believed, as it was then.
            compute.wait_for_server(compute.get_server(server), status=status, wait=WAIT)
    for end in ("confirm", "revert"):
        with step(f"compute.resize_server, {end}_server_resize"):
            compute.resize_server(server, compute.find_flavor("m1.small" if end == "confirm" else "m1.medium"))
            compute.wait_for_server(compute.get_server(server), status="VERIFY_RESIZE", wait=WAIT)
            getattr(compute, f"{end}_server_resize")(server)
            compute.wait_for_server(compute.get_server(server), wait=WAIT)
    with step("compute.lock_server, unlock_server"):
        compute.lock_server(server, locked_reason="kept")
        want(compute.get_server(server).is_locked, "not locked")
        compute.unlock_server(server)
    with step("compute.get_server_console_output"):
        want("output" in compute.get_server_console_output(server, length=5), "none")
    with step("compute.server_actions, get_server_action"):
        first = list(compute.server_actions(server))[-1]
        want(compute.get_server_action(first.request_id, server).events is not None, first)
    with step("compute.create_server_image"):
        shot = compute.create_server_image(server, "sdk.snapshot", wait=True, timeout=WAIT)
        want(cloud.image.get_image(shot).status == "active", shot)
        cloud.image.delete_image(shot)
    with step("compute.delete_server, wait_for_delete"):
        compute.delete_server(server)
        compute.wait_for_delete(server, wait=WAIT)
    with step("compute: hypervisors, services, availability zones, limits, usage, aggregates"):
        want(list(compute.hypervisors(details=True)), "no hypervisor")
        want(list(compute.services()), "no service")
        want("edge" in {one.name for one in compute.availability_zones(details=True)}, "no edge")
        want(compute.get_limits().absolute, "no limits")
        list(compute.usages())
        compute.get_usage(cloud.current_project_id)
        aggregate = compute.create_aggregate(name="sdk-aggregate")
        compute.set_aggregate_metadata(aggregate, {"ssd": "true"})
        compute.delete_aggregate(aggregate)
    with step("placement: resource providers"):
        want(list(cloud.placement.resource_providers()), "none")
        want(list(cloud.placement.traits()) and list(cloud.placement.resource_classes()), "none")


def wired(cloud: Any, image: Any, network: Any) -> None:
    """The layer that programs like Ansible and Nodepool use: names, waits, addresses in one call."""
    server = None
    with step("create_keypair, list_keypairs"):
        want(cloud.create_keypair("sdk-key").private_key, "no private key")
        want("sdk-key" in {one.name for one in cloud.list_keypairs()}, "not listed")
    with step("create_server(network, auto_ip, key_name, wait)"):
        server = cloud.create_server(
            "sdk-wired",
            image=image.name,
            flavor="m1.tiny",
            network="sdk-net",
            key_name="sdk-key",
            security_groups=["default"],
            auto_ip=True,
            wait=True,
            timeout=WAIT,
        )
        # What it hands out after it waited for the address is the server as Compute tells it, without these two.
        server = cloud.get_server(server.id)
        told = (server.private_v4, server.public_v4, server.addresses)
        want(server.status == "ACTIVE" and server.private_v4 and server.public_v4, told)
    with step("list_floating_ips, delete_server with its addresses"):
        want(len(cloud.list_floating_ips()) == 1, "not one")
        cloud.delete_server("sdk-wired", wait=True, timeout=WAIT, delete_ips=True)
        want(cloud.list_floating_ips() == [], "one is left")
    with step("create_server_interface, server_interfaces, delete_server_interface"):
        server = cloud.create_server(
            "sdk-two", image=image.name, flavor="m1.tiny", network="sdk-net", auto_ip=False, wait=True
        )
        made = cloud.compute.create_server_interface(server.id, net_id=network.id)
        want(len(list(cloud.compute.server_interfaces(server.id))) == 2, "not two")
        cloud.compute.delete_server_interface(made, server=server.id)
        cloud.delete_server("sdk-two", wait=True, timeout=WAIT)
    with step("create_server_group, server in it, delete"):
        group = cloud.compute.create_server_group(name="sdk-apart", policy="anti-affinity")
        how = {"image": image.name, "flavor": "m1.tiny", "network": "sdk-net", "auto_ip": False, "wait": True}
        made = [cloud.create_server(f"sdk-apart-{n}", group=group.id, **how) for n in (1, 2)]
        want(len({one.compute_host or one.host_id for one in made}) == 2, "on one host")
        for one in made:
            cloud.delete_server(one.id, wait=True, timeout=WAIT)
        cloud.compute.delete_server_group(group)
    with step("delete_keypair, remove_router_interface"):
        cloud.delete_keypair("sdk-key")
        router = cloud.get_router("sdk-router")
        cloud.remove_router_interface(router, subnet_id=cloud.get_subnet("sdk-subnet").id)


def people(cloud: Any, image: Any) -> None:
    identity = cloud.identity
    project = user = None
    with step("identity: project, user, role, group, assignments"):
        project = identity.create_project(name="sdk-project", domain_id="default")
        user = identity.create_user(name=USER, password="a long passphrase", domain_id="default")
        role = identity.find_role("member")
        identity.assign_project_role_to_user(project, user, role)
        want(identity.validate_user_has_project_role(project, user, role), "not assigned")
        group = identity.create_group(name="sdk-group", domain_id="default")
        identity.add_user_to_group(user, group)
        want(identity.check_user_in_group(user, group), "not in it")
        identity.remove_user_from_group(user, group)
        identity.delete_group(group)
        want(list(identity.role_assignments(user_id=user.id)), "none")
    with step("identity: services, endpoints, regions, domains"):
        want(list(identity.services()) and list(identity.endpoints()), "none")
        want(list(identity.regions()) and identity.find_domain("Default"), "none")
    with step("quota sets"):
        cloud.set_compute_quotas("sdk-project", instances=1, cores=2)
        want(cloud.get_compute_quotas("sdk-project").instances == 1, "not set")
        cloud.set_network_quotas("sdk-project", network=2)
        want(cloud.get_network_quotas("sdk-project").networks == 2, "not set")
    made: Any = None
    with step("application credential, and a server by it"):
        auth = {"auth_url": cloud.config.auth["auth_url"], "username": USER, "password": "a long passphrase"}
        names = {"project_name": "sdk-project", "user_domain_id": "default", "project_domain_id": "default"}
        common = {"region_name": cloud.config.region_name, "cacert": cloud.config.config["cacert"]}
        own: Any = openstack.connect(auth={**auth, **names}, load_yaml_config=False, load_envvars=False, **common)
        made = own.identity.create_application_credential(user, "sdk-robot", secret="hush hush")
        robot: Any = openstack.connect(
            auth_type="v3applicationcredential",
            auth={
                "auth_url": auth["auth_url"],
                "application_credential_id": made.id,
                "application_credential_secret": "hush hush",
            },
            load_yaml_config=False,
            load_envvars=False,
            **common,
        )
        flavor = robot.compute.find_flavor("m1.tiny")
        how = {"image_id": image.id, "flavor_id": flavor.id, "networks": "none"}
        robot.compute.wait_for_server(robot.compute.create_server(name="sdk-mine", **how), wait=WAIT)
        want([one.name for one in robot.compute.servers()] == ["sdk-mine"], "others are seen")
        try:
            robot.compute.create_server(name="sdk-more", **how)
        except openstack.exceptions.HttpException as refused:
            want(refused.status_code == 403, refused)
        else:
            want(False, "the quota did not hold")
    with step("delete of server, credential, user, project"):
        robot.delete_server("sdk-mine", wait=True, timeout=WAIT)
        own.identity.delete_application_credential(user, made)
        identity.delete_user(user)
        identity.delete_project(project)


def layer(cloud: Any) -> None:
    with step("search by name and filter, list_hypervisors, get_compute_limits"):
        want(cloud.search_flavors(filters={"name": "m1.tiny"}), "none")
        want(cloud.list_hypervisors() and cloud.get_compute_limits(), "none")
        want(cloud.list_availability_zone_names(), "none")


if __name__ == "__main__":
    main(*sys.argv[1:])
