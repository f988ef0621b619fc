"""Answers kept for others by an explicit click: preview, address, deletion.

What is kept of a paste is decided in `kb.lookup.keeping`.
"""
