"""Pure decisions over frozen values: standard library only, told the time, never asks."""
