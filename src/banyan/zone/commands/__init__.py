"""A person's words: each checked, stored with its journal line in one unit, then shown."""
