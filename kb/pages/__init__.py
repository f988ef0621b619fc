"""The pages of the knowledge base: a view loads, a module makes, a template shows.

`urls` and `views` are the way in; each other module is a page, or a piece of several.
Nothing in kb imports a page but template tags; `runner.pages` adds its panels there.
"""
