"""What the compute service does at its entry zone: flavors, keys, groups, limits, and the ordering of servers.

Every call takes the Principal and authorises by core/permissions.py; what it changes is in the journal. Servers
themselves are zone/servers; what is needed of images and networks is asked through sources.py. OpenStack's words for
all of it are in api/nova. Read compute.py for how the parts stand together.
"""
