"""Spark looks for sources in packages of such names: this makes the format ``rowcast`` known."""

from rowcast_lake.spark.format import RowcastSource

DefaultSource = RowcastSource
