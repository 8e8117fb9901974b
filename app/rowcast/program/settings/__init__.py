"""Settings: what each section of the configuration says, with its bounds."""
