"""Imports what nobody has."""


def trigger():
    import a_module_that_nobody_has

    return {"reached": a_module_that_nobody_has.value}
