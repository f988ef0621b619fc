"""The page on which an account says what it watches, and reads what turned.

May import kb.telling and pages.
"""
