"""One file of 600 MiB, all of it a hole."""


def trigger():
    with open("big", "wb") as file:
        file.truncate(600 * 1024 * 1024)
    return {"reached": 1}
