"""Decisions about capacity: columns, folds, sums of members. Pure; the only room that knows numpy."""
