"""Sources of records: whatever yields them, the front ends cannot tell which."""
