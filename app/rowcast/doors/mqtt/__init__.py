"""Floor 4: the MQTT edge. It translates packets into the kernel's verbs and events into packets."""
