"""Decisions about life and death: who is alive, suspect, lost. Pure."""
