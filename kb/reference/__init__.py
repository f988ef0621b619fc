"""The API's documentation as a page, made of docs/openapi.json by our own templates.

`document` reads the description into what a page shows, `types` says a schema in few
words, `examples` writes an operation as a command. May import what `kb.api` may.
"""
