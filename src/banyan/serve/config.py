"""Settings: one frozen tree from a TOML file, flags and the environment. Unknown keys are errors.

Flags win over the file, the file over defaults. This is the only module that reads the environment.
docs/generated/settings.md is made from the types below; every field says its unit.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from banyan.core.digest import MAX_NAME, MAX_SHAPES
from banyan.core.errors import BadInput
from banyan.core.ids import check_label, check_name
from banyan.core.ports import RackSpec
from banyan.core.quota import DEFAULTS, MAX_LIMIT, Limits, Quota
from banyan.core.receiver import MAX_RECEIVERS, ReceiverSpec
from banyan.core.resources import ResourceClass, Shape
from banyan.core.share import Share
from banyan.core.time import Terms
from banyan.core.zone import Mode
from banyan.placement.shapes import countable
from banyan.serve.receiver_settings import ReceiverSettings
from banyan.trust.keys import FINGERPRINT_SIZE
from banyan.trust.tokens import MAX_ADDRESSES
from banyan.zone.compute.flavors import FIRST
from banyan.zone.settings import ZoneSettings

Positive = Annotated[float, msgspec.Meta(gt=0)]
Patterns = tuple[str, ...]


class ShareSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the rack offers to its zone: shell patterns, and a ceiling per resource class."""

    aggregates: Patterns = ("*",)
    availability_zones: Patterns = ("*",)
    hosts: Patterns = ("*",)
    flavors: Patterns = ("*",)
    projects: Patterns = ("*",)
    ceiling: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}


class RackSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rack: its `name` in this zone, its `driver`, that driver's own `options`, and what it shares."""

    name: str
    driver: str
    options: dict[str, object] = {}
    share: ShareSettings = ShareSettings()


class ZoneTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`mode`: the most that a parent may do here: observe, place or protect.

    `shapes`: what a server may need of one host, as "memory_mib=4096,vcpu=2" or "vcpu=2;HW_CPU_X86_AVX2" with the
    traits that the host must have, at most 300: how many more would fit is counted in this zone and in all below it.
    """

    name: str = ""
    labels: dict[str, str] = {}
    mode: str = "observe"
    shapes: tuple[str, ...] = ()


class ApiTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The HTTP API. `tls` off is for loopback only. `certificate` and `key`: PEM files; without them the
    zone signs one itself, and DATA/api.pem is a copy of it for `--ca-file`.

    `names`: further DNS names and addresses for that certificate. `public_url`: scheme, host and port under which
    clients reach it, for the catalogue and for links; empty takes the name by which each client came.
    """

    listen: str = "127.0.0.1:8780"
    tls: bool = True
    certificate: str = ""
    key: str = ""
    names: tuple[str, ...] = ()
    public_url: str = ""


class QueueTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The queue between API processes and their zone. Those on the zone's machine come to DATA/queue.sock.

    In a zone, `listen`: host:port for those of other machines, over mutual TLS. In an API process, `zone_socket`: that
    socket, or `zone`: host:port of the zone's `queue.listen`. For TLS, at both ends: `certificate` and `key` (PEM
    files), `ca`: who signs the other end's certificate, and `names`: the DNS names of which the other end must have
    one.
    """

    listen: str = ""
    zone_socket: str = ""
    zone: str = ""
    certificate: str = ""
    key: str = ""
    ca: str = ""
    names: tuple[str, ...] = ()


class IdentityTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Users, projects and roles, and the OpenStack APIs that ask for them. `enabled` off: this zone serves none of it.

    `token_life`: seconds. `region`: under which this zone's services stand in the catalogue; where clients use several
    roots, each needs its own.
    """

    enabled: bool = True
    token_life: Annotated[float, msgspec.Meta(ge=60, le=604_800)] = 3_600.0
    region: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] = "RegionOne"


class FirstFlavor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One flavor of a new zone: what a server of it gets. Sizes in MiB and GiB."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    vcpus: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)]
    memory_mib: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)]
    disk_gib: Annotated[int, msgspec.Meta(ge=0, le=MAX_LIMIT)] = 0


Most = Annotated[int, msgspec.Meta(ge=-1, le=MAX_LIMIT)]


class QuotaTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every project may have that was given no limits of its own; -1 is no limit. `ram` in MiB. `key_pairs` are
    per user, `metadata_items` per server, `server_group_members` per group.
    """

    instances: Most = DEFAULTS[Quota.SERVERS]
    cores: Most = DEFAULTS[Quota.VCPU]
    ram: Most = DEFAULTS[Quota.MEMORY_MIB]
    metadata_items: Most = DEFAULTS[Quota.METADATA_ITEMS]
    key_pairs: Most = DEFAULTS[Quota.KEY_PAIRS]
    server_groups: Most = DEFAULTS[Quota.SERVER_GROUPS]
    server_group_members: Most = DEFAULTS[Quota.GROUP_MEMBERS]

    def limits(self) -> Limits:
        return {
            Quota.SERVERS: self.instances,
            Quota.VCPU: self.cores,
            Quota.MEMORY_MIB: self.ram,
            Quota.METADATA_ITEMS: self.metadata_items,
            Quota.KEY_PAIRS: self.key_pairs,
            Quota.SERVER_GROUPS: self.server_groups,
            Quota.GROUP_MEMBERS: self.server_group_members,
        }


class ComputeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Servers, where this zone is their entry. `flavors`: those that a zone begins with; once it has any, people make
    and delete them, and this is not looked at. `quota`: limits of every project.
    """

    flavors: tuple[FirstFlavor, ...] = tuple(
        FirstFlavor(one.id, one.name, one.vcpu, one.memory_mib, one.disk_gib) for one in FIRST
    )
    quota: QuotaTable = QuotaTable()


Bytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 60)]


class WebDownloadTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Images that are fetched from an address which a user names. `private`: also from addresses that are not of the
    public internet, this machine's own among them; only where all users are trusted. `ports`: to which it connects.
    `deadline`: seconds for one image. `redirects`: how many are followed.
    """

    enabled: bool = True
    private: bool = False
    ports: tuple[Annotated[int, msgspec.Meta(ge=1, le=65_535)], ...] = (80, 443)
    deadline: Positive = 3_600.0
    redirects: Annotated[int, msgspec.Meta(ge=0, le=20)] = 5


class ImagesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Images, where this zone is the entry of who uses them; their data lies in DATA/images. Sizes in bytes.

    `largest`: one image's data. `keep_free`: what the file system of the data folder must have left, or no image is
    taken. `quota_images`, `quota_bytes`: what the images of one project may be; -1 is no limit.
    """

    largest: Bytes = 1 << 40
    keep_free: Annotated[int, msgspec.Meta(ge=0, le=1 << 60)] = 1 << 30
    quota_images: Most = 10_000
    quota_bytes: Annotated[int, msgspec.Meta(ge=-1, le=1 << 60)] = 1 << 40
    web_download: WebDownloadTable = WebDownloadTable()


class LinkTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The link. `advertise`: host:port as children shall dial it (default: `listen`).

    `parent`: host:port where the parent's link listens, and `parent_pin` the SHA-256 of its CA (`banyan status`
    there): for a zone whose key the parent has listed, which then needs no join code; and where the parent
    is from now on, if it moved. `proxy`: http://host:port for CONNECT towards the parent; `proxy_user` and
    `proxy_password_file` if it asks for them. `bytes_per_second` bounds what a session sends, to the parent
    and to each child. `dscp` marks its packets (1 is LE).
    """

    listen: str = "127.0.0.1:8781"
    advertise: tuple[str, ...] = ()
    parent: tuple[str, ...] = ()
    parent_pin: str = ""
    proxy: str = ""
    proxy_user: str = ""
    proxy_password_file: str = ""
    bytes_per_second: Positive = 4_194_304
    dscp: Annotated[int, msgspec.Meta(ge=0, le=63)] = 1


class TermsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds. What this zone grants to its children: see docs/operator-guide.md, "Two clocks"."""

    lease: Positive = 15.0
    grace: Positive = 15.0
    silence_term: Positive = 600.0
    report: Positive = 6.0
    certificate_life: Annotated[float, msgspec.Meta(ge=60)] = 86_400.0


class ScanTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds between scans and probes of a rack, and the most that one scan may take.

    `requests_per_second` bounds what a scan asks of a bottom.
    """

    interval: Positive = 60.0
    probe_interval: Positive = 15.0
    deadline: Positive = 900.0
    requests_per_second: Positive = 10.0


class StoreTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`url`: sqlite:///PATH or postgresql://USER@HOST/DB; empty is an SQLite file in the data folder.

    `seal_key_file`: the key that seals secrets at rest; empty is `seal.key` in the data folder.
    """

    url: str = ""
    seal_key_file: str = ""


class LogTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`level`: debug, info, warning or error. `format`: text or json."""

    level: str = "info"
    format: str = "text"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of one zone's settings."""

    zone: ZoneTable = ZoneTable()
    api: ApiTable = ApiTable()
    queue: QueueTable = QueueTable()
    identity: IdentityTable = IdentityTable()
    compute: ComputeTable = ComputeTable()
    images: ImagesTable = ImagesTable()
    link: LinkTable = LinkTable()
    terms: TermsTable = TermsTable()
    scan: ScanTable = ScanTable()
    store: StoreTable = StoreTable()
    log: LogTable = LogTable()
    rack: tuple[RackSettings, ...] = ()
    receiver: tuple[ReceiverSettings, ...] = ()
    data: str = ""

    @property
    def folder(self) -> Path:
        return Path(self.data)

    @property
    def api_url(self) -> str:
        """Where the API listens, as a URL."""
        return f"{'https' if self.api.tls else 'http'}://{self.api.listen}"

    def public_url(self) -> str:
        """`api.public_url` without a slash at its end. Raises BadInput("bad-setting") if it is none."""
        url = self.api.public_url.rstrip("/")
        parts = urlsplit(url)
        if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query):
            raise BadInput(
                "bad-setting",
                f"api.public_url is scheme, host and port, such as https://cloud.example:8780, got {url[:100]!r}",
            )
        return url

    def share_of(self, rack: str) -> Share:
        for row in self.rack:
            if row.name == rack:
                s = row.share
                return Share(
                    s.aggregates,
                    s.availability_zones,
                    s.hosts,
                    s.flavors,
                    s.projects,
                    {ResourceClass(k): v for k, v in s.ceiling.items()},
                )
        return Share()

    def for_parent(self) -> tuple[tuple[str, ...], bytes] | None:
        """Addresses and pin of the parent that the settings name, if they do. Raises BadInput("bad-setting")."""
        addresses, text = self.link.parent, self.link.parent_pin
        if not addresses and not text:
            return None
        try:
            pin = bytes.fromhex(text.replace(":", ""))
        except ValueError:
            pin = b""
        if not 1 <= len(addresses) <= MAX_ADDRESSES or len(pin) != FINGERPRINT_SIZE:
            raise BadInput(
                "bad-setting",
                f"link.parent (--parent) is 1 to {MAX_ADDRESSES} addresses, and link.parent_pin (--parent-pin) the "
                "64 hexadecimal digits after `CA` in `banyan status` at the parent; set both, or neither",
            )
        return addresses, pin

    def for_zone(self) -> ZoneSettings:
        """The part that the zone itself needs. Raises BadInput naming the setting that is wrong."""
        check_name(self.zone.name)
        for key, value in self.zone.labels.items():
            check_label(key, value)
        for row in self.rack:
            check_name(row.name, "rack name")
        if len({row.name for row in self.rack}) < len(self.rack):
            raise BadInput("bad-setting", "two racks of one zone have the same name; give each its own")
        try:
            mode = Mode(self.zone.mode)
        except ValueError as error:
            raise BadInput("bad-setting", f"zone.mode is observe, place or protect, got {self.zone.mode!r}") from error
        shapes = self._shapes()
        terms = self.terms
        if terms.report * 2 > terms.lease:
            raise BadInput(
                "bad-setting",
                f"terms.report ({terms.report:g} s) must be at most half of terms.lease ({terms.lease:g} s), "
                "or one late report would end a lease",
            )
        return ZoneSettings(
            name=self.zone.name,
            labels=dict(self.zone.labels),
            racks=tuple(
                RackSpec(
                    r.name,
                    r.driver,
                    dict(r.options),
                    share=self.share_of(r.name),
                    requests_per_second=self.scan.requests_per_second,
                )
                for r in self.rack
            ),
            addresses=self.link.advertise or (self.link.listen,),
            mode=mode,
            terms=Terms(terms.lease, terms.silence_term, terms.grace, terms.report),
            certificate_life=terms.certificate_life,
            scan_interval=self.scan.interval,
            probe_interval=self.scan.probe_interval,
            scan_deadline=self.scan.deadline,
            shapes=shapes,
            receivers=self._receivers(),
        )

    def _receivers(self) -> tuple[ReceiverSpec, ...]:
        if len(self.receiver) > MAX_RECEIVERS:
            raise BadInput("bad-setting", f"a zone tells at most {MAX_RECEIVERS} receivers, got {len(self.receiver)}")
        if len({row.name for row in self.receiver}) < len(self.receiver):
            raise BadInput("bad-setting", "two receivers of one zone have the same name; give each its own")
        return tuple(row.spec() for row in self.receiver)

    def _shapes(self) -> tuple[str, ...]:
        """Keys of the shapes, spelled as every zone spells them."""
        if len(self.zone.shapes) > MAX_SHAPES:
            raise BadInput("bad-setting", f"zone.shapes has at most {MAX_SHAPES} shapes, got {len(self.zone.shapes)}")
        try:
            shapes = [Shape.parse(key) for key in self.zone.shapes]
        except ValueError as error:
            raise BadInput("bad-setting", f"zone.shapes: {error}") from error
        for shape in shapes:
            if not countable([shape]):
                raise BadInput(
                    "bad-setting",
                    f"zone.shapes: {shape.key[:80]!r} can not be counted: a shape needs something, and is spelled in "
                    f"at most {MAX_NAME} characters",
                )
        return tuple(shape.key for shape in shapes)


def default_data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The per-user folder: $XDG_DATA_HOME/banyan, else ~/.local/share/banyan."""
    env = os.environ if environment is None else environment
    base = env.get("XDG_DATA_HOME") or str(Path(env.get("HOME", "/")) / ".local" / "share")
    return Path(base) / "banyan"


def credentials_folder() -> Path | None:
    """Where systemd put our credentials (LoadCredential=), if it did."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return Path(folder) if folder else None


def load(file: Path | None, flags: Mapping[str, object]) -> Settings:
    """Settings from `file` (TOML) with `flags` on top.

    `flags` maps dotted keys ("api.listen") to values; None means not given. Without `file`, DATA/banyan.toml
    is read if it is there. Raises BadInput("bad-setting") naming file, line, key and what was expected.
    """
    tree: dict[str, object] = {}
    data = flags.get("data")
    path = file
    if path is None and isinstance(data, str) and (Path(data) / "banyan.toml").is_file():
        path = Path(data) / "banyan.toml"
    text = ""
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
            tree = tomllib.loads(text)
        except OSError as error:
            raise BadInput("bad-setting", f"cannot read settings file {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadInput("bad-setting", f"{path} is not valid TOML: {error}") from error
    for dotted, value in flags.items():
        if value is None:
            continue
        node = tree
        *parents, last = dotted.split(".")
        for name in parents:
            below = node.setdefault(name, {})
            if not isinstance(below, dict):
                raise BadInput("bad-setting", f"{path}: {name!r} must be a table")
            node = below
        node[last] = value
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise BadInput("bad-setting", f"{path or 'flags'}{_line(text, str(error))}: {error}") from error
    if not settings.data:
        settings = msgspec.structs.replace(settings, data=str(default_data_folder()))
    return settings


def _line(text: str, complaint: str) -> str:
    """ ":LINE" of the key that msgspec complains about, as well as plain text search can tell."""
    named = re.search(r"unknown field `([^`]+)`", complaint)
    where = re.search(r"`\$((?:\.[\w-]+|\[[^\]]*\])*)`", complaint)
    key = named.group(1) if named else (re.findall(r"\.([\w-]+)", where.group(1)) or [""])[-1] if where else ""
    if not key:
        return ""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*\[*\s*([\w.-]*\.)?{re.escape(key)}\s*[=\].]", line):
            return f":{number}"
    return ""
