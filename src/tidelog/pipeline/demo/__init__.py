"""The shop: orders in, cleaned orders and revenue out, with a cluster, a generator and Spark on one machine; and the proof by kill -9.

`orders` says what comes in and what must come out, `shop` is the pipeline itself, `driver` the process it runs in, `counting` compares.
"""
