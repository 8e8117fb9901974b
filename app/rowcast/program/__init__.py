"""The program: configuration, command line, and the server as a whole.

The package is not called ``server``, because code in ``resources/`` imports ``from rowcast import
server`` for its own server.
"""
