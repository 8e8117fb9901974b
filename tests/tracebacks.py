"""What the bus logs when a subscriber raises: nobody else learns of it, and that event is lost."""

import logging


class Tracebacks(logging.Handler):
    """The exceptions that subscribers raised, each as it was logged."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.seen = []
        logging.getLogger("rowcast.bus").addHandler(self)

    def emit(self, record):
        """Keep it."""
        if record.exc_info:
            self.seen.append(logging.Formatter().format(record))
