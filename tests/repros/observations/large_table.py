"""64 texts of 4 kB."""


def trigger():
    return dict({"x%d" % number: "x" * 4000 for number in range(50)}, reached=0)
