"""The REST API of the knowledge base, and what both halves of `/api/v1/` are made of.

`endpoint` declares operations, `views` are kb's own and `serializers` their answers,
made of `fields`; runner's stand in `runner.api`, addresses in `config.api_urls`,
problems in `kb.problems`.
"""
