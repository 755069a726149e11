"""``kvtui bench``: fixed cases as a share of this device's measured bandwidth limit."""
