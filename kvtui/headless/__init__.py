"""The front end without a screen: text and JSON from the same session the dashboard shows."""
