"""The command `banyan`: a client of the API for people and scripts, and the glue that starts a zone.

It decides nothing about zones and opens no store: what it shows came over HTTP, from DATA/control.sock or a URL.
Start reading at main.py; the promise to scripts is docs/contracts/cli.md.
"""
