"""The source: topics as rows, for queries over what is there (`spark.read`) and over what comes (`spark.readStream`).

The driver surveys the cluster (survey), says from where to where each micro-batch reads (offsets) and who reads what (planning). Tasks
fetch raw bytes (raw_reader) and decode them into Arrow; what they are to read is all in their `TaskRanges`.
"""
