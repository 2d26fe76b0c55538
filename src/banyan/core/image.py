"""Images: what a server may be booted from, whose they are, who else may use them, and what was asked of them.

Kept at the entry zone of their users; an order carries what it needs of one (decision 10). Instants are corrected wall
time, sizes bytes unless a name says otherwise. Texts are whatever people wrote, up to the bounds below, without NUL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.time import Wall

# Of one image, as OpenStack bounds them by default; the text of all its properties together in characters.
MAX_PROPERTIES = 128
MAX_PROPERTY_TEXT = 65_535
MAX_TAGS = 128
MAX_MEMBERS = 128
MAX_TEXT = 255

# Names of formats that an image may have (OpenStack's defaults).
CONTAINER_FORMATS = ("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed")
DISK_FORMATS = ("ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop")

# The algorithm of the checksum that a server's image is known by.
HASH = "sha512"


class ImageStatus(StrEnum):
    """QUEUED: there is a row and no data. SAVING and IMPORTING: data is on its way. UPLOADING: data lies ready to be
    imported, or is on its way there."""

    QUEUED = "queued"
    SAVING = "saving"
    UPLOADING = "uploading"
    IMPORTING = "importing"
    ACTIVE = "active"
    DEACTIVATED = "deactivated"
    KILLED = "killed"


class Visibility(StrEnum):
    """Who sees it: everybody and in lists; everybody who knows it; its members; its project."""

    PUBLIC = "public"
    COMMUNITY = "community"
    SHARED = "shared"
    PRIVATE = "private"


class MemberStatus(StrEnum):
    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Image:
    """`owner`: a project's id, "" for nobody's. `checksum`: MD5 in hex; `hash_value` by `hash_algo`, in hex.

    `data`: the file that holds its data, "" while there is none; `attempt`: who is writing it now, "" for nobody.
    Of an image that a server's disk will fill: `server`, the `request` that asked for it, and `purpose`: "snapshot",
    "shelved", or "backup", which is "backup/N" until it is filled and N backups stay. `filled` is set once it is.
    `import_failed`: what the last import of it failed at.
    """

    id: str
    owner: str
    name: str | None = None
    status: ImageStatus = ImageStatus.QUEUED
    visibility: Visibility = Visibility.SHARED
    container_format: str | None = None
    disk_format: str | None = None
    size: int | None = None
    virtual_size: int | None = None
    checksum: str | None = None
    hash_algo: str | None = None
    hash_value: str | None = None
    min_disk: int = 0
    min_ram: int = 0
    protected: bool = False
    hidden: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    created_at: Wall = Wall(0.0)
    updated_at: Wall = Wall(0.0)
    data: str = ""
    attempt: str = ""
    server: str = ""
    purpose: str = ""
    request: str = ""
    filled: bool = False
    import_failed: bool = False

    @property
    def awaits_server(self) -> bool:
        """A server's disk will fill it."""
        return bool(self.server) and not self.filled


@dataclass(frozen=True, slots=True)
class ImageMember:
    """A project that an image is shared with."""

    image: str
    member: str
    status: MemberStatus = MemberStatus.PENDING
    created_at: Wall = Wall(0.0)
    updated_at: Wall = Wall(0.0)


class ImageSort(StrEnum):
    """Columns that a list of images may be ordered by. Ties are broken by created_at, then by id."""

    ID = "id"
    NAME = "name"
    STATUS = "status"
    CONTAINER_FORMAT = "container_format"
    DISK_FORMAT = "disk_format"
    SIZE = "size"
    VISIBILITY = "visibility"
    OWNER = "owner"
    MIN_DISK = "min_disk"
    MIN_RAM = "min_ram"
    CHECKSUM = "checksum"
    CREATED = "created_at"
    UPDATED = "updated_at"


@dataclass(frozen=True, slots=True)
class Between:
    """`least` <= an instant < `below`; None is no bound. `outside` asks for the opposite."""

    least: Wall | None = None
    below: Wall | None = None
    outside: bool = False


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """Which images. All conditions hold together; an empty one is no condition.

    `viewer`: the project that looks: it sees public images, its own, and shared ones of which it has a membership in
    `member_status` (None: in any). None sees every project's. `visibility` None: what a viewer sees by itself, which
    leaves out other projects' community images; `community` adds them. `hidden`: only those that are, or are not;
    None is both. `exact`: values of the columns of those names. `tags`: all of them. `sort`: (column, descending).
    """

    viewer: str | None = None
    visibility: Visibility | None = None
    community: bool = False
    member_status: MemberStatus | None = MemberStatus.ACCEPTED
    hidden: bool | None = False
    owner: str | None = None
    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    container_formats: tuple[str, ...] = ()
    disk_formats: tuple[str, ...] = ()
    exact: Mapping[str, str | int | bool] = field(default_factory=dict)
    size_min: int | None = None
    size_max: int | None = None
    tags: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    created: tuple[Between, ...] = ()
    updated: tuple[Between, ...] = ()
    sort: tuple[tuple[ImageSort, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """What a project's images hold: how many, and bytes of their data."""

    images: int = 0
    bytes: int = 0


class TaskState(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class ImageTask:
    """One import, as it is shown to who asked for it. `method`: "glance-direct" or "web-download"; `uri` of the
    latter, without what in it may be a secret. Forgotten at `expires`, once it has ended."""

    id: str
    image: str
    owner: str
    user: str
    request: str
    method: str
    uri: str = ""
    state: TaskState = TaskState.PENDING
    message: str = ""
    created_at: Wall = Wall(0.0)
    updated_at: Wall = Wall(0.0)
    expires: Wall = Wall(0.0)
