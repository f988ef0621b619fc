"""Badges for READMEs: a verdict on one build, and whether a version is affected.

`drawing` is what a badge is, `verdict` and `affected` say what stands on one, `views`
answers with the drawing. May import what `kb.syndication` may.
"""
