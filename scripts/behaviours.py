"""scripts/behaviours: which behaviours the tests prove, and by which tests."""

import sys

from behaviours import PAGE, Page, mistakes, order, proofs


def main(words):
    """Answer what was asked; return the exit code."""
    match words:
        case ["--ids"]:
            print(*sorted(proofs(), key=order), sep="\n")
        case ["--proofs"]:
            for name, tests in sorted(proofs().items(), key=lambda found: order(found[0])):
                print(*(f"{name} {test}" for test in sorted(tests)), sep="\n")
        case ["--write"]:
            PAGE.write_text(Page.read(PAGE.read_text()).text())
        case []:
            found = sorted(mistakes())
            print(*found or ["docs/behaviours.md and the tests agree"], sep="\n")
            return bool(found)
        case names:
            tests = proofs()
            for name in names:
                print(name, *sorted(tests.get(name, ["has no test"])), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
