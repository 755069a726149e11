"""``kvtui check``: proves on this machine what the other commands assume."""
