"""The REST API of runs, builds, evidence and the files to take away.

`rules` says who may do what, for both halves of the API; operations are declared by
`kb.api.endpoint`, addresses stand in `config.api_urls`.
"""
