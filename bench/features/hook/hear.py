"""A hook that hears of every PUBLISH and lets it pass: what it costs to be asked."""

from rowcast import Hook, hooks


@hooks.add
class Hear(Hook):
    """Refuses nothing."""

    def on_publish(self, caller: object, event: object) -> None:
        """Let it pass."""
