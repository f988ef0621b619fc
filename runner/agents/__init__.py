"""The tools of the site for coding agents, over the Model Context Protocol (MCP).

`tools` are plain functions over what the API answers from; `server` offers them with
the official SDK, which only the extra `mcp` installs; `http` takes one request of the
web server through it.
"""

# What installs the extra in a checkout whose environment `make run` made.
INSTALL = ".venv/bin/python -m pip install --require-hashes -r requirements-mcp.txt"
