"""Floor 5: doors. Each translates a protocol into the kernel's verbs and decides nothing."""
