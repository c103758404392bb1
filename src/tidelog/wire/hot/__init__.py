"""Hand-written codecs of the bodies that carry data: Produce and Fetch, all versions, both directions.

They say what `decoder` and `encoder` would make of kio's layouts, but never copy a record: a decoded request holds slices
of the frame it came in, and an encoded response is a list of pieces with the records between them as they were given.
Property tests keep them equal to kio byte for byte.
"""
