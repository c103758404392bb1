"""Record batches to Arrow and back, compiled: no Python object is made per record. Pure; knows neither Spark nor the network.

`decoding` and `encoding` are for others to use. What they compile lies in `*_kernel` modules, which import numba and are loaded on first use.
A kernel calls nothing compiled of another module: numba keeps its cache per file and would not notice that the other one has changed.
"""
