"""Drivers: one per kind of rack. They translate between a bottom and the words of `core`; they never decide.

`registry` finds them through the entry-point group `banyan.drivers`, built-ins and strangers' alike;
`contract` is the suite that each must pass. A driver knows no other driver and no zone. The duties
are numbered in docs/contracts/driver.md; docs/checklists/driver.md says how to add one.
"""
