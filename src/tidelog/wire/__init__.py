"""Bytes to requests and responses and back; pure.

`api` has the table of what exists, `messages` one type per API and direction for all versions, `frame` and `header` what surrounds a
body, `codec` the four functions that turn bodies into messages and back. Message layouts come from kio's dataclasses, or in the words of
`schema` from our own where kio has none, but no byte from the network reaches kio's reader, which trusts counts and lengths: decoding is
ours and bounded, and kio's writer is the test oracle.
"""
