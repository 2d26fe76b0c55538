"""The store against real processes, disks and servers that die, fill up and lie."""
