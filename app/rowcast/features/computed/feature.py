"""The feature: binds functions of ``resources/`` to the attributes that they compute (A9).

A server with an attribute that nothing computes, or with a function for nothing, does not start.
"""

from collections.abc import Sequence

from rowcast.codecs import json_text
from rowcast.core.code_formula import CodeFormula
from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.features.computed.computation import Computation
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class ComputedByCode(Feature):
    """The functions of a server. Raises INVALID unless they are those that the schema needs."""

    def __init__(self, tables: Sequence[Table], functions: Sequence[Computation]) -> None:
        self._functions = tuple(functions)
        found = [item.formula for table in tables for item in table.attributes]
        self._formulas = {item.label: item for item in found if isinstance(item, CodeFormula)}
        by_label = {item.label: item for item in self._functions}
        for item in self._functions:
            if by_label[item.label] is not item:
                raise Error(
                    Code.INVALID, f"{item.label} has two functions with @computed; remove one"
                )
            if item.label not in self._formulas:
                raise Error(
                    Code.INVALID,
                    f"a function in resources/ computes {item.label}, which the schema does not "
                    f"declare with @computed alone{did_you_mean(item.label, self._formulas)}",
                )
        for label in self._formulas.keys() - by_label.keys():
            raise Error(
                Code.INVALID,
                f"nothing computes {label}: write @computed(from: ...) in the schema, or a "
                f'function with @computed("{label}") in resources/',
            )

    def install(self, kernel: Kernel) -> None:
        """Bind the functions, before anything is read."""
        for item in self._functions:
            self._formulas[item.label].bind(item.value, item.failed, json_text.encode)
        if self._functions:
            kernel.figures["computed/failures"] = self._failures

    def _failures(self) -> int:
        return sum(item.failures for item in self._functions)
