"""How tests start Java: none of its processes lives long enough to repay what these save."""

OPTIONS = (
    "-XX:TieredStopAtLevel=1 "  # without the second compiler, which takes half of all time
    "-XX:+UseSerialGC "
    # without a check of the bytecode of Spark's own classes, a tenth of each start
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
