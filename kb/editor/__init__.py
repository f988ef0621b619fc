"""Records edited on the site: facts as fields, both languages side by side.

What files refuse is refused here, at its field; the admin stays as it is.
"""
