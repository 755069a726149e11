"""The dashboard: panels that draw what ``session`` knows, and nothing that computes."""
