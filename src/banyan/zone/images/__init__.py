"""Images of this zone's users: records, data, members, imports, and what compute asks of them.

`service.py` puts it together; `access.py` says who sees what. What of the outside is needed stands in
core/image_ports.py: a place for files, and somebody who fetches from addresses. Every call takes the Principal and
authorises.
"""
