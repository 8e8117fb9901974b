"""The frame of a notice to a client. A class of bytes is not compiled, so it stands alone."""

from rowcast.subscriptions.gaps import Gap


class NoticeFrame(bytes):
    """The frame of a notice; ``gap`` is its content, to be repeated if the frame is lost."""

    gap: Gap | None = None
