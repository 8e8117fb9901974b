"""The version of the log, by which nodes of two releases know whether they may work together.

It is in a module of its own so that ``rowcast --version`` imports nothing else. It knows nothing of
what is encoded, which is in ``log/batch_content.py``.
"""

from typing import Final

OPERATIONS: Final[int] = 3
"""The version of what operations (``log/batch_content.py``) say, and facts, and nodes to one
another. Raise it with each change that a node of an earlier release would not carry out the same:
then such nodes do not follow one another. Version 1 knows no facts in staged pages, and no
``GIVE_WAY``; version 2 no results in several tables."""
