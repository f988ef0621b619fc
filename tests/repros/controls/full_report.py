"""Reports as much as it may."""


def trigger():
    found = {"x%d" % number: [0.1 + number] * 50 for number in range(50)}
    return dict(found, reached=0, ran="\u4e2d" * 1000, many=[1 / 3] * 1000, yes=True)
