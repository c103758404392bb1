"""Measurements of a broker on this machine, alone or beside Apache Kafka. `make bench`, `make bench ARGS='--kafka'`."""
