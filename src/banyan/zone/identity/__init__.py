"""Identity: who may use this zone's cloud. The directory's commands, logins, and the gate that tokens pass.

`identity.py` puts the parts together; `desk.py` is what they share. Every call takes the Principal and authorises by
core/permissions.py; what it changes is in the journal, and counts for tokens that are out already. OpenStack's words
for all this are in api/keystone.
"""
