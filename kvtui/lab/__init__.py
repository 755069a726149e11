"""The experiments of the two lessons, run here: figure beside reported figure."""
