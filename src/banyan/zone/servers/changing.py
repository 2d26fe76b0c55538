"""Changes of a server that need nothing of its rack: names, metadata, tags, interfaces as the network side has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from banyan.core.errors import BadInput, Conflict
from banyan.core.server import Change, Server
from banyan.core.time import Wall

# What Nova takes: https://docs.openstack.org/api-ref/compute/ (server tags; quota metadata_items).
MAX_TAGS: Final = 50
MAX_TAG: Final = 60
MAX_METADATA: Final = 128
MAX_TEXT: Final = 255


def changed(server: Server, change: Change, now: Wall) -> Server:
    """`server` with the change, as a new revision; itself if nothing differs.

    Raises Conflict("changed"), BadInput: "bad-name", "bad-tags", "bad-metadata".
    """
    c = change
    if c.if_revision is not None and c.if_revision != server.revision:
        raise Conflict(
            "changed", f"server {server.id} is at revision {server.revision}, not {c.if_revision}; read it again"
        )
    spec = server.spec
    metadata = dict(spec.metadata if c.metadata is None else c.metadata)
    metadata.update(c.metadata_merge)
    for key in c.metadata_drop:
        metadata.pop(key, None)
    if metadata != spec.metadata:
        spec = replace(spec, metadata=_checked_metadata(server, metadata))
    tags = tuple(sorted(({*(spec.tags if c.tags is None else c.tags)} | {*c.tags_add}) - {*c.tags_drop}))
    if tags != tuple(sorted(spec.tags)):
        spec = replace(spec, tags=_checked_tags(server, tags))
    if c.security_groups is not None and c.security_groups != spec.security_groups:
        spec = replace(spec, security_groups=c.security_groups)
    if c.disk_config is not None and c.disk_config != spec.disk_config:
        spec = replace(spec, disk_config=c.disk_config)
    description = server.description if c.description is None else c.description
    after = replace(
        server,
        spec=spec,
        name=server.name if c.name is None else _text("name", c.name),
        description=None if "description" in c.clear else description,
        hostname=server.hostname if c.hostname is None else _text("hostname", c.hostname),
        nics=server.nics if c.nics is None else c.nics,
        connected=server.connected or c.nics is not None,
    )
    return server if after == server else replace(after, revision=server.revision + 1, updated=now)


def named(change: Change) -> str:
    """What a person asked to be changed, in words, for the journal. "" for interfaces alone: those the network side
    tells, and whoever plugged them has a line for that."""
    words = {
        "name": change.name is not None,
        "description": change.description is not None or "description" in change.clear,
        "host name": change.hostname is not None,
        "metadata": touches_metadata(change),
        "tags": change.tags is not None or bool(change.tags_add) or bool(change.tags_drop),
        "security groups": change.security_groups is not None,
        "disk config": change.disk_config is not None,
    }
    return ", ".join(word for word, asked in words.items() if asked)


def touches_metadata(change: Change) -> bool:
    """What a lock keeps its owner from changing."""
    return change.metadata is not None or bool(change.metadata_merge) or bool(change.metadata_drop)


def _text(what: str, value: str) -> str:
    if not value or len(value) > MAX_TEXT:
        raise BadInput("bad-name", f"a server's {what} has 1 to {MAX_TEXT} characters, got {len(value)}")
    return value


def _checked_metadata(server: Server, metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > MAX_METADATA:
        raise BadInput("bad-metadata", f"a server has at most {MAX_METADATA} items of metadata, got {len(metadata)}")
    for key, value in metadata.items():
        if not key or len(key) > MAX_TEXT or len(value) > MAX_TEXT:
            raise BadInput(
                "bad-metadata",
                f"server {server.id}: keys of metadata have 1 to {MAX_TEXT} characters and values up to {MAX_TEXT}, "
                f"got {key[:40]!r} with {len(key)} and {len(value)}",
            )
    return metadata


def _checked_tags(server: Server, tags: Iterable[str]) -> tuple[str, ...]:
    found = tuple(tags)
    if len(found) > MAX_TAGS:
        raise BadInput("bad-tags", f"a server has at most {MAX_TAGS} tags, got {len(found)}")
    for tag in found:
        if not tag or len(tag) > MAX_TAG or "/" in tag or "," in tag:
            raise BadInput(
                "bad-tags",
                f"server {server.id}: a tag has 1 to {MAX_TAG} characters, without / and comma, got {tag[:80]!r}",
            )
    return found
