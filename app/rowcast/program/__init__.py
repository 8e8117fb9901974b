"""Floor 6: the program: configuration, command line, and the server as a whole.

The room is not called ``server``, because ``from rowcast import server`` is what code in
``resources/`` writes for its own server.
"""
