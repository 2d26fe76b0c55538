"""One transaction's rows, gathered: what a unit of work is given (core.records.Unit).

Bound to one connection, reused for its transactions one after the other; never kept by a unit's work.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from banyan.store.authorities import SqlAuthorities
from banyan.store.catalogue import SqlCatalogue
from banyan.store.children import SqlChildren
from banyan.store.codes import SqlCodes
from banyan.store.compute import SqlCompute
from banyan.store.directory import SqlDirectory
from banyan.store.guests import SqlGuests
from banyan.store.host_words import SqlHostWords
from banyan.store.hosts import SqlHosts
from banyan.store.images import SqlImageRows
from banyan.store.journal import SqlJournal
from banyan.store.keys import Seal, SqlKeys
from banyan.store.known_keys import SqlKnownKeys
from banyan.store.ledger import SqlLedger
from banyan.store.lineage import SqlLineage
from banyan.store.networks import SqlNetworks
from banyan.store.orders import SqlOrders
from banyan.store.own import SqlSelf
from banyan.store.racks import SqlRacks
from banyan.store.receivers import SqlReceivers
from banyan.store.retries import SqlRetries
from banyan.store.rules import SqlRules
from banyan.store.server_actions import SqlActions
from banyan.store.servers import SqlServers
from banyan.store.shares import SqlShares
from banyan.store.streams import SqlStreams
from banyan.store.tokens import SqlTokens
from banyan.store.uplinks import SqlUplinks


@dataclass(frozen=True, slots=True)
class SqlUnit:
    self_: SqlSelf
    keys: SqlKeys
    authorities: SqlAuthorities
    uplinks: SqlUplinks
    children: SqlChildren
    streams: SqlStreams
    lineage: SqlLineage
    ledger: SqlLedger
    racks: SqlRacks
    hosts: SqlHosts
    guests: SqlGuests
    catalogue: SqlCatalogue
    codes: SqlCodes
    known_keys: SqlKnownKeys
    rules: SqlRules
    tokens: SqlTokens
    journal: SqlJournal
    servers: SqlServers
    actions: SqlActions
    orders: SqlOrders
    directory: SqlDirectory
    compute: SqlCompute
    networks: SqlNetworks
    shares: SqlShares
    retries: SqlRetries
    receivers: SqlReceivers
    images: SqlImageRows
    host_words: SqlHostWords


def unit(connection: Connection, seal: Seal) -> SqlUnit:
    return SqlUnit(
        SqlSelf(connection),
        SqlKeys(connection, seal),
        SqlAuthorities(connection),
        SqlUplinks(connection),
        SqlChildren(connection),
        SqlStreams(connection),
        SqlLineage(connection),
        SqlLedger(connection),
        SqlRacks(connection),
        SqlHosts(connection),
        SqlGuests(connection),
        SqlCatalogue(connection),
        SqlCodes(connection),
        SqlKnownKeys(connection),
        SqlRules(connection),
        SqlTokens(connection),
        SqlJournal(connection),
        SqlServers(connection),
        SqlActions(connection),
        SqlOrders(connection),
        SqlDirectory(connection, seal),
        SqlCompute(connection),
        SqlNetworks(connection),
        SqlShares(connection),
        SqlRetries(connection),
        SqlReceivers(connection),
        SqlImageRows(connection),
        SqlHostWords(connection),
    )
