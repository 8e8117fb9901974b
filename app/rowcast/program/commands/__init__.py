"""Commands: what the command line does besides starting the server."""
