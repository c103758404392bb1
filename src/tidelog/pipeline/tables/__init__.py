"""Topics kept as tables: the format "tidelog-table", which writes Parquet, Delta and Iceberg exactly once.

Tasks write Parquet files that nobody names yet; the driver publishes those of a micro-batch, with its marker, in one commit of the table.
"""
