"""What each runtime would reserve for the same question; one file a runtime."""
