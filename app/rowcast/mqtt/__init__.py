"""Sans-I/O MQTT 3.1, 3.1.1 and 5.0: bytes in, packets out, and back.

It is ours because no library speaks the three versions on the server's side at speed. It must not
know sockets, tasks, clocks or chance: what time it is and what comes in are arguments.
"""
