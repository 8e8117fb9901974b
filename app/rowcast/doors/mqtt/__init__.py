"""The MQTT edge. It translates packets into the kernel's verbs and events into packets."""
