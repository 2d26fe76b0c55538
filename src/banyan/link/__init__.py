"""The link between a child zone and its parent: sessions over wires (protocols §6). It carries words only.

`session` is the rules without I/O; `child` and `parent` run it; `memory_wire` and `websocket_wire` carry it.
"""
