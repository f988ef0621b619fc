"""The pages of builds, runs and evidence, and runner's panels on a record's page.

`urls` and `views` are the way in; each other module is a page, or a piece of several.
"""
