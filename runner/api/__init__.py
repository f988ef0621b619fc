"""The REST API of runs, builds, evidence and the files to take away.

`rules` says who may do what, for both halves of the API; operations are declared by
`kb.api.endpoint`, their answers by `serializers`; addresses stand in `config.api_urls`.
"""
