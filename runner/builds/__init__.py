"""Torch builds on this host: discovery, installation, probing, listing, removal.

`registry` synchronises the rows of Build and Installation with the disk; `probe` and
`features` run under a build's own Python. torch is never imported here.
"""
