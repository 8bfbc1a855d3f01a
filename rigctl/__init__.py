"""rigctl: a control panel for a home GPU rig. Start reading at DESIGN.md."""

__version__ = "0.1.0"
