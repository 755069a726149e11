"""Screens over the dashboard, imported when they are opened."""
