"""The feature: rules for retained messages at undeclared topics, and their rows (E17 to E20)."""

from rowcast.features.retained.retain_rules import Retaining, RetainRules
from rowcast.features.retained.retained_rows import PATH, retained_rows
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.store.store import Records


class RetainedMessages(Feature):
    """The retained messages of one server.

    ``store`` counts them. One subscriber is given at most ``delivery_rate`` in a second (0 is no
    limit), read ``page_records`` at a time.
    """

    def __init__(
        self,
        rules: RetainRules,
        store: Records,
        *,
        page_records: int,
        delivery_rate: float,
    ) -> None:
        self._rules = rules
        self._store = store
        self._page_records = page_records
        self._delivery_rate = delivery_rate

    def install(self, kernel: Kernel) -> None:
        """Add the rules of writes, and the rows."""
        rules = Retaining(self._rules, kernel.now, self._store)
        kernel.steps.add("retained", rules.step, messages=False)
        reader = kernel.reader
        reader.retains = self._rules.enabled
        reader.scan_records = self._page_records
        reader.delivery_rate = self._delivery_rate
        kernel.rows(PATH, retained_rows(kernel.now))
