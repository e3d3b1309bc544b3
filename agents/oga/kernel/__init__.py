"""Compiled code of OgaSched: utilities, projection, ascent, maximisation, and the comparison partners.

Shapes: L ports, J jobs, R instances, K resources, E edges. Edges are sorted by instance; `start` [R + 1] is
the index of an instance's first edge and `port` [E] the port of each edge. A plane is the part of one
resource; an allocation y is [K, E], so that planes are contiguous and can be computed apart, in threads.
"""
