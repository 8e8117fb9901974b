"""Settings: the sections of the configuration, with their bounds."""
