"""Floor 4: the MQTT edge. It translates packets into the engine's verbs and events into packets."""
