"""The network service of one entry zone: networks, subnets, ports, routers, floating IPs, security groups, quotas.

What it keeps is wanted state and who has which address; nothing here moves packets. service.py puts it together,
serving.py is its side towards servers, addressing.py says how an address is found.
"""
