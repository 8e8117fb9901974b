"""``python -m rowcast``: the command ``rowcast``, where no script of it is on the path."""

from rowcast.program.cli import main

main()
