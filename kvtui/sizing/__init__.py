"""Bytes: what layer kinds store and read, what weights take, what a budget leaves."""
