"""Spark looks for sources in packages of such names: this makes the format ``rowcast`` known."""

from rowcast.pipeline.format import RowcastSource

DefaultSource = RowcastSource
