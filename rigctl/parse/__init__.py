"""Text in, facts out: metrics, loads and log of an engine. Touches nothing."""
