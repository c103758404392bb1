"""One file per API: the types that its requests and responses become, whatever their version, and its row of the API table.

Fields have Kafka's names in snake case and are required where every version has them without a default. Where a version lacks a field,
decoding gives its default and encoding drops it, except for fields marked `needed`, whose loss would change what the message means.
"""
