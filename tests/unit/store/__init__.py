"""The store's own small parts: locations, files, codecs, the lane."""
