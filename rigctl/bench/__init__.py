"""Figures with their peers, measured in one run and printed as a table."""
