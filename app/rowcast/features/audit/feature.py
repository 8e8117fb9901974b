"""The feature: logs administrative actions (L15) and refusals (L9) below ``$AUDIT``."""

from rowcast.features.audit import audit, refusals
from rowcast.features.audit.audit import Audit
from rowcast.features.audit.refusals import RefusalLog
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.seams.seams import OwnLog


class AuditLog(Feature):
    """The two logs, with separate limits."""

    def install(self, kernel: Kernel) -> None:
        """Listen to administration and refusals."""
        kernel.own_logs.append(OwnLog(audit.TABLE, audit.KEPT))
        kernel.own_logs.append(OwnLog(refusals.TABLE, refusals.KEPT))
        kernel.listeners.administration.append(Audit(kernel, kernel.now))
        kernel.listeners.refusals.append(RefusalLog(kernel, kernel.now))
        kernel.committer.on_denied.append(kernel.listeners.refused)
