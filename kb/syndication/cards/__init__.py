"""The picture of a record that a link to it shows in a chat or a feed.

`content` is what stands on it, `drawing` makes the PNG with Pillow and the font beside
it, `views` answers with it. May import what `kb.syndication` may.
"""
