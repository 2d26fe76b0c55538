"""The queue between API processes and their zone: one stream of frames, many requests in it.

frames.py says what is said, wire.py sends it, zone_end.py answers it in the zone, process.py asks it in an API
process. docs/contracts/queue.md has the rules.
"""
