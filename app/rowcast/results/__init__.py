"""How a result, the rows of a job, is compared with its table, bounded and written."""
