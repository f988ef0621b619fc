"""SSH signatures of what was sent: by whose key, so that it can be traced.

A signature says who vouches for a result, not that the result is true.
"""
