"""What OpenStack's services answer, as far as it is read here: msgspec structs, decoded strictly from JSON.

Fields that a service may leave out have defaults (Nova shows a server of a cell that does not answer with little
more than its id); fields that are not read are not named. https://docs.openstack.org/api-ref/ has the rest.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import msgspec


class Link(msgspec.Struct, frozen=True):
    rel: str
    href: str


# --- compute ------------------------------------------------------------------------------------


class HypervisorService(msgspec.Struct, frozen=True):
    host: str
    disabled_reason: str | None = None


class Hypervisor(msgspec.Struct, frozen=True):
    id: str
    hypervisor_hostname: str
    state: str
    status: str
    service: HypervisorService
    hypervisor_type: str = ""
    vcpus: int = 0
    memory_mb: int = 0
    local_gb: int = 0


class HypervisorPage(msgspec.Struct, frozen=True):
    hypervisors: list[Hypervisor]

    def ids(self) -> list[str]:
        return [item.id for item in self.hypervisors]

    def more(self) -> bool:
        # Nova drops rows whose service is gone from a page, and with a short page the link to the next: ask until
        # a page is empty.
        return bool(self.hypervisors)


class Service(msgspec.Struct, frozen=True):
    host: str
    status: str
    zone: str = ""
    state: str = ""


class ServiceList(msgspec.Struct, frozen=True):
    services: list[Service]


class Aggregate(msgspec.Struct, frozen=True):
    name: str
    hosts: list[str]
    availability_zone: str | None = None


class AggregateList(msgspec.Struct, frozen=True):
    aggregates: list[Aggregate]


class Flavor(msgspec.Struct, frozen=True):
    id: str
    name: str
    vcpus: int
    ram: int
    disk: int
    ephemeral: int = msgspec.field(name="OS-FLV-EXT-DATA:ephemeral", default=0)
    swap: int | str = 0
    is_public: bool = msgspec.field(name="os-flavor-access:is_public", default=True)
    disabled: bool = msgspec.field(name="OS-FLV-DISABLED:disabled", default=False)
    extra_specs: dict[str, str] = {}


class FlavorPage(msgspec.Struct, frozen=True):
    flavors: list[Flavor]
    flavors_links: list[Link] = []

    def ids(self) -> list[str]:
        return [item.id for item in self.flavors]

    def more(self) -> bool:
        return _next(self.flavors_links)


class ServerFlavor(msgspec.Struct, frozen=True):
    """Embedded in a server since compute 2.47, as it was when the server was made."""

    original_name: str = ""
    vcpus: int = 0
    ram: int = 0
    disk: int = 0
    ephemeral: int = 0
    swap: int | str = 0


class ServerFault(msgspec.Struct, frozen=True):
    """`message` is for everybody; `details` (where Nova shows them, to administrators) often a traceback."""

    message: str = ""
    details: str = ""


class Server(msgspec.Struct, frozen=True):
    id: str
    tenant_id: str = ""
    name: str | None = ""
    status: str = "UNKNOWN"
    created: str = ""
    flavor: ServerFlavor = ServerFlavor()
    vm_state: str = msgspec.field(name="OS-EXT-STS:vm_state", default="")
    task_state: str | None = msgspec.field(name="OS-EXT-STS:task_state", default=None)
    power_state: int = msgspec.field(name="OS-EXT-STS:power_state", default=0)
    launched_at: str | None = msgspec.field(name="OS-SRV-USG:launched_at", default=None)
    fault: ServerFault | None = None
    metadata: dict[str, str] = {}
    host: str | None = msgspec.field(name="OS-EXT-SRV-ATTR:host", default=None)
    hypervisor_hostname: str | None = msgspec.field(name="OS-EXT-SRV-ATTR:hypervisor_hostname", default=None)


class ServerPage(msgspec.Struct, frozen=True):
    servers: list[Server]
    servers_links: list[Link] = []

    def ids(self) -> list[str]:
        return [item.id for item in self.servers]

    def more(self) -> bool:
        return _next(self.servers_links)


class ServerReply(msgspec.Struct, frozen=True):
    server: Server


class MadeServer(msgspec.Struct, frozen=True):
    """What `POST /servers` says. The password beside the id is not read."""

    id: str


class MadeReply(msgspec.Struct, frozen=True):
    server: MadeServer


class HypervisorReply(msgspec.Struct, frozen=True):
    hypervisor: Hypervisor


class ConsoleReply(msgspec.Struct, frozen=True):
    output: str | None = ""


class AbsoluteLimits(msgspec.Struct, frozen=True):
    """-1 is unlimited."""

    cores: int = msgspec.field(name="maxTotalCores")
    ram: int = msgspec.field(name="maxTotalRAMSize")
    instances: int = msgspec.field(name="maxTotalInstances")
    cores_used: int = msgspec.field(name="totalCoresUsed")
    ram_used: int = msgspec.field(name="totalRAMUsed")
    instances_used: int = msgspec.field(name="totalInstancesUsed")


class Limits(msgspec.Struct, frozen=True):
    absolute: AbsoluteLimits


class LimitsReply(msgspec.Struct, frozen=True):
    limits: Limits


class QuotaSet(msgspec.Struct, frozen=True):
    cores: int
    ram: int
    instances: int


class QuotaReply(msgspec.Struct, frozen=True):
    quota_set: QuotaSet


# --- placement ----------------------------------------------------------------------------------


class Provider(msgspec.Struct, frozen=True):
    """`generation` rises with every change but the removal of an allocation."""

    uuid: str
    name: str
    generation: int
    root: str = msgspec.field(name="root_provider_uuid")


class ProviderList(msgspec.Struct, frozen=True):
    """Each is a Provider, decoded one by one: placement does not page, and decoding holds all threads."""

    resource_providers: list[msgspec.Raw]

    def providers(self) -> list[Provider]:
        return list(map(_PROVIDER.decode, self.resource_providers))


class ClassSummary(msgspec.Struct, frozen=True):
    """`capacity` = floor((total - reserved) x allocation ratio)."""

    capacity: int
    used: int


class ProviderSummary(msgspec.Struct, frozen=True):
    resources: dict[str, ClassSummary]
    traits: list[str] = []


class Candidates(msgspec.Struct, frozen=True):
    """Only the summaries of `GET /allocation_candidates`; how the request could be met is skipped over.

    By provider, each a ProviderSummary that is decoded by itself, as above.
    """

    provider_summaries: dict[str, msgspec.Raw]

    def summaries(self, wanted: Container[str]) -> Iterator[tuple[str, ProviderSummary]]:
        return ((uuid, _SUMMARY.decode(raw)) for uuid, raw in self.provider_summaries.items() if uuid in wanted)


class Inventory(msgspec.Struct, frozen=True):
    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    min_unit: int = 1
    step_size: int = 1


class InventoryReply(msgspec.Struct, frozen=True):
    inventories: dict[str, Inventory]


class UsageReply(msgspec.Struct, frozen=True):
    usages: dict[str, int]


class TraitReply(msgspec.Struct, frozen=True):
    traits: list[str]


_PROVIDER = msgspec.json.Decoder(Provider)
_SUMMARY = msgspec.json.Decoder(ProviderSummary)


# --- image, network, identity -------------------------------------------------------------------


class Image(msgspec.Struct, frozen=True):
    id: str
    name: str | None = None
    status: str = ""
    size: int | None = None
    checksum: str | None = None
    hash_algorithm: str | None = msgspec.field(name="os_hash_algo", default=None)
    hash_value: str | None = msgspec.field(name="os_hash_value", default=None)
    visibility: str = ""


class ImagePage(msgspec.Struct, frozen=True):
    images: list[Image]
    next: str | None = None

    def ids(self) -> list[str]:
        return [item.id for item in self.images]

    def more(self) -> bool:
        return bool(self.next)


class Network(msgspec.Struct, frozen=True):
    id: str
    name: str = ""
    shared: bool = False
    external: bool = msgspec.field(name="router:external", default=False)
    project_id: str | None = ""


class NetworkPage(msgspec.Struct, frozen=True):
    networks: list[Network]
    networks_links: list[Link] = []

    def ids(self) -> list[str]:
        return [item.id for item in self.networks]

    def more(self) -> bool:
        return _next(self.networks_links)


class Subnet(msgspec.Struct, frozen=True):
    id: str
    network_id: str
    cidr: str | None = ""


class SubnetPage(msgspec.Struct, frozen=True):
    subnets: list[Subnet]
    subnets_links: list[Link] = []

    def ids(self) -> list[str]:
        return [item.id for item in self.subnets]

    def more(self) -> bool:
        return _next(self.subnets_links)


class Project(msgspec.Struct, frozen=True):
    id: str
    name: str
    domain_id: str | None = ""
    enabled: bool = True


class ProjectList(msgspec.Struct, frozen=True):
    """Each is a Project, decoded one by one: Keystone does not page. `truncated`: its own list_limit cut the list."""

    projects: list[msgspec.Raw]
    truncated: bool = False

    def by_id(self) -> list[Project]:
        return sorted(map(_PROJECT.decode, self.projects), key=lambda project: project.id)


class Named(msgspec.Struct, frozen=True):
    """A domain or a role."""

    id: str
    name: str = ""


class DomainList(msgspec.Struct, frozen=True):
    domains: list[Named]


class RoleList(msgspec.Struct, frozen=True):
    roles: list[Named]


class ProjectReply(msgspec.Struct, frozen=True):
    project: Project


_PROJECT = msgspec.json.Decoder(Project)


def _next(links: list[Link]) -> bool:
    return any(link.rel == "next" for link in links)
