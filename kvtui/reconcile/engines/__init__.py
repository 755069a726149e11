"""One module an engine: the wordings of its lines, and what they mean."""
