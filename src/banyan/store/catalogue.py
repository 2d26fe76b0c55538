"""What a rack's last scan saw beside hosts and guests: flavors, images, networks, projects."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, bindparam, delete, select

from banyan.core.catalogue import Flavor, Image, Network, Project
from banyan.core.ids import RackCode
from banyan.store import tables
from banyan.store.bulk import BulkPut, OfMany, batches, storable

_T = tables.catalogue
_OF = (_T.c.rack == bindparam("of"), _T.c.kind == bindparam("sort"))
_LIST = select(_T.c.content).where(*_OF).order_by(_T.c.name, _T.c.id)
_KNOWN = select(_T.c.id, _T.c.content).where(*_OF)
_DROP = OfMany(_T.c.id, lambda listed: delete(_T).where(*_OF, listed))
_PUT = BulkPut(_T)
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_FLAVOR = msgspec.msgpack.Decoder(Flavor)
_IMAGE = msgspec.msgpack.Decoder(Image)
_NETWORK = msgspec.msgpack.Decoder(Network)
_PROJECT = msgspec.msgpack.Decoder(Project)


class SqlCatalogue:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def replace(
        self,
        rack: RackCode,
        flavors: Sequence[Flavor],
        images: Sequence[Image],
        networks: Sequence[Network],
        projects: Sequence[Project],
    ) -> None:
        self._replace(rack, "flavor", {x.id: (x.name, _ENCODER.encode(x)) for x in flavors})
        self._replace(rack, "image", {x.id: (x.name, _ENCODER.encode(x)) for x in images})
        self._replace(rack, "network", {x.id: (x.name, _ENCODER.encode(x)) for x in networks})
        self._replace(rack, "project", {x.id: (x.name, _ENCODER.encode(x)) for x in projects})

    def _replace(self, rack: RackCode, kind: str, wanted: dict[str, tuple[str, bytes]]) -> None:
        """Writes only what differs: most scans change nothing here."""
        known = dict(self._connection.execute(_KNOWN, {"of": rack, "sort": kind}).all())
        for gone in batches(id_ for id_ in known if id_ not in wanted):
            _DROP(self._connection, gone, {"of": rack, "sort": kind})
        changed = ((id_, name, packed) for id_, (name, packed) in wanted.items() if known.get(id_) != packed)
        for batch in batches(changed):
            _PUT(self._connection, [(rack, kind, id_, storable(name), packed) for id_, name, packed in batch])

    def flavors(self, rack: RackCode) -> Sequence[Flavor]:
        """By (name, id), as the other three."""
        return [_FLAVOR.decode(packed) for packed in self._packed(rack, "flavor")]

    def images(self, rack: RackCode) -> Sequence[Image]:
        return [_IMAGE.decode(packed) for packed in self._packed(rack, "image")]

    def networks(self, rack: RackCode) -> Sequence[Network]:
        return [_NETWORK.decode(packed) for packed in self._packed(rack, "network")]

    def projects(self, rack: RackCode) -> Sequence[Project]:
        return [_PROJECT.decode(packed) for packed in self._packed(rack, "project")]

    def _packed(self, rack: RackCode, kind: str) -> Sequence[bytes]:
        return self._connection.execute(_LIST, {"of": rack, "sort": kind}).scalars().all()
