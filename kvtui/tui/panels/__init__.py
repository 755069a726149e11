"""One widget a panel; each draws a slice of the session and walks its own figures."""
