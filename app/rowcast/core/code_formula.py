"""A formula that is a function of ``resources/``, whose results are checked like written values.

The schema makes it, for ``@computed`` without ``from``; the feature ``computed`` binds the function
when the files are loaded. It is called wherever a formula is: for each record that is read, on the
threads of queries as well as on the loop. So a wrong result is no error of a request, only no
value.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

from rowcast.core.errors import Error
from rowcast.core.formula import Formula
from rowcast.core.tables import Attribute, Table
from rowcast.core.values import Checker

Computing = Callable[[dict[str, object]], object]
"""Returns the value of an attribute for a record; raises nothing but an Error."""


class CodeFormula(Formula):
    """The formula of one attribute; without a function it computes nothing."""

    __slots__ = ("_check", "_checker", "_failed", "_function", "_hidden", "_name", "label")

    def __init__(self, table: Table, attribute: Attribute) -> None:
        stored = frozenset(one.name for one in table.attributes if one.stored)
        self._hidden = frozenset(one.name for one in table.attributes if one.hidden)
        super().__init__(self._value, stored - self._hidden)
        self._name = attribute.name
        self.label = f"{table.name}.{attribute.name}"
        """What functions are registered for."""
        plain = replace(attribute, computed=None, formula=None, required=False)
        self._checker = Checker(Table(table.name, None, (plain,), sealed=True))
        self._function: Computing | None = None
        self._failed: Callable[[Error], None] | None = None
        self._check: Callable[[object], object] | None = None

    @property
    def bound(self) -> bool:
        """Whether it has a function."""
        return self._function is not None

    def bind(
        self,
        function: Computing,
        failed: Callable[[Error], None],
        check: Callable[[object], object] | None = None,
    ) -> None:
        """Set the function; ``failed`` is told why there is no value.

        ``check`` raises the Error of a value that has the declared type and cannot be sent, such as
        a tuple or an instance of a subclass; without it nothing but the type is checked.
        """
        self._function, self._failed, self._check = function, failed, check

    def _value(self, value: object) -> object:
        """Return the value for a record, of which the function gets a copy."""
        if self._function is None or not isinstance(value, dict):
            return None
        record = {
            name: deepcopy(item) if isinstance(item, dict | list) else item
            for name, item in value.items()
            if name not in self._hidden
        }
        try:
            made = self._checker.check({self._name: self._function(record)})
            if self._check is not None:
                self._check(made)
        except Error as error:
            if self._failed is not None:
                self._failed(error)
            return None
        return made[self._name] if isinstance(made, dict) else None
