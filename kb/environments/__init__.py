"""What a pasted environment says: `pip freeze`, `collect_env`, images, GPUs.

`environment` is the door: text in, packages and hardware out. Pure functions over
text that nobody vouches for; they import nothing else of kb.
"""
