"""Bounds of what Spark reads and writes; the rest of ``limits`` and by its rules."""

JAVA_ANSWER_SECONDS = 20
"""Time for a Java to say which one it is: a second, on a machine that is very busy."""
JAVA_VERSION_MIN = 17
"""The oldest Java that Spark 4 starts with."""
