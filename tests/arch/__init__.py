"""The house's own rules: imports, rooms, generated documents, what the documents say."""
