"""Laws are tried with the same examples in every run, and never fail because a machine was slow."""

from hypothesis import settings

settings.register_profile("house", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("house")
