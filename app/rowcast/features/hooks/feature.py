"""The feature: user code at named points of every door's way (G1-G22)."""

from rowcast.features.hooks.hook_pipeline import HookPipeline
from rowcast.features.hooks.hook_rows import HOOKS, hook_rows
from rowcast.features.hooks.hooks import Hooks
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class UserHooks(Feature):
    """The hooks of one server; who made them starts and stops them, before and after the kernel."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def install(self, kernel: Kernel) -> None:
        """Ask them from now on."""
        hooks = self._hooks
        hooks.listeners = kernel.listeners
        kernel.hooks = hooks
        pipeline = kernel.gate = HookPipeline(kernel, hooks)
        kernel.steps.add("hooks", pipeline.step)
        kernel.view.append(pipeline.stage)
        kernel.reader.supply, kernel.reader.supplies = hooks.supply, lambda: hooks.supplying

        def changed() -> None:
            kernel.steps.changed()
            if hooks.reading and hooks not in kernel.read_filters:
                kernel.read_filters.append(hooks)

        hooks.changed = changed
        changed()
        kernel.provide(hooks)
        kernel.rows(HOOKS, hook_rows(hooks))
