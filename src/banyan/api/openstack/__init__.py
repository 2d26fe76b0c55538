"""The chassis of the OpenStack APIs: tables, scopes, microversions, faults. Each service's own part lies beside it.

Read table.py for what a row is, service.py for what a service is, serve.py for what happens to a request.
docs/checklists/openstack-service.md is how one is added.
"""
