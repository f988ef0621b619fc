"""The pages of builds, runs and evidence, and runner's panels on a record's page.

`urls` and `views` are the entry; each other module is a page or a part of several.
"""
