"""Checks of a will at CONNECT: what would be refused when its client is lost is refused now.

Then nobody could be told. Checked is what is certain already: the topic, the right to write there,
and that the value fits the table. What depends on the record there, on hooks or on the code of a
resource class is only known when the will is published.
"""

from typing import Final

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Invalid
from rowcast.core.topics import split_delayed
from rowcast.doors.mqtt.packets.error_reasons import PUBACK_REASONS
from rowcast.doors.mqtt.packets.messages import event_of_will
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason
from rowcast.mqtt.violations import Violation
from rowcast.routes.registry import VERB_OF_KIND, Route
from rowcast.writes.write import FIRE_AND_FORGET, Write

_OF_VALUE: Final = frozenset({Code.INVALID, Code.UNPROCESSABLE, Code.UNSUPPORTED})


def check_will(kernel: Kernel, will: Will, caller: Caller) -> None:
    """Raise a Violation for a will that would be refused; its topic is the one that is meant."""
    event = event_of_will(will, caller.client_id)
    event.topic = split_delayed(will.topic)[1]
    try:
        route = kernel.registry.route(event.topic)
    except Error as error:
        raise _refused(error, Reason.TOPIC_NAME_INVALID) from None
    try:
        kernel.rights.check_write(will.topic, caller, event.kind)
        if not route.overrides(VERB_OF_KIND[event.kind]):
            event.properties = None  # of which steps would take note
            kernel.admission.step(route)(Write(event, caller, FIRE_AND_FORGET))
    except Error as error:
        if error.code not in _OF_VALUE or not _takes_all(route):
            raise _refused(error, PUBACK_REASONS[error.code]) from None


def _takes_all(route: Route) -> bool:
    """Whether values that do not fit are no error at a topic."""
    return route.table is not None and route.table.invalid is not Invalid.REJECT


def _refused(error: Error, reason: Reason) -> Violation:
    return Violation(reason, f"the will would be refused: {error.message}")
