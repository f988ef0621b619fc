"""What executes on the way into the sandbox, under the Python of a build, by path.

Standard library in the syntax of 3.8; its modules find each other as neighbours.
"""
