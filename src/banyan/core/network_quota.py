"""How much of the network service a project may have. Beside core/quota.py, which limits servers.

Each is counted in the store where it is made and deleted, so a limit holds whoever writes at once. Lowered limits take
nothing away.
"""

from __future__ import annotations

from collections.abc import Mapping

from banyan.core.network import Kind
from banyan.core.quota import UNLIMITED

NetworkLimits = Mapping[Kind, int]

# Unless an operator says otherwise. What a project of some thousand servers needs without asking.
NETWORK_DEFAULTS: NetworkLimits = {
    Kind.NETWORK: 100,
    Kind.SUBNET: 100,
    Kind.PORT: 20_000,
    Kind.ROUTER: 10,
    Kind.FLOATING_IP: 50,
    Kind.GROUP: 100,
    Kind.RULE: 1_000,
    Kind.POOL: UNLIMITED,
}
