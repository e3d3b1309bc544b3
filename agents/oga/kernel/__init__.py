"""What of OgaSched is compiled: utilities, projection, ascent, maximisation, and the comparison partners.

Shapes: L ports, J jobs, R instances, K resources, E edges. Edges are sorted by instance; `start` [R + 1] says
where an instance's edges begin and `port` [E] whose they are. A plane is what concerns one resource; an
allocation y is [K, E], so that planes are contiguous and can be computed apart, in threads.
"""
