"""What tells the receivers of the settings: core.receiver.Senders with real sockets."""

from __future__ import annotations

from banyan.core.receiver import ReceiverKind, ReceiverSpec, Sender
from banyan.serve.syslog import Syslog
from banyan.serve.webhook import Webhook


# not-offered: a proxy towards a receiver of alarms; receivers that are named or changed while the zone runs
class SocketSenders:
    def make(self, spec: ReceiverSpec) -> Sender:
        """Raises BadInput for files that the receiver needs and that are not as they must be."""
        return Webhook(spec) if spec.kind is ReceiverKind.WEBHOOK else Syslog(spec)
