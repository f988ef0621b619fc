"""Sending a capture, and its page, which only its address leads to."""
