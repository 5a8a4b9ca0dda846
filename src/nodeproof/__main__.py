"""The command `nodeproof`, also as `python -m nodeproof`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; Ctrl-C may come while it is still being imported."""
    try:
        from nodeproof.cli import main as run
    except KeyboardInterrupt:
        print("nodeproof: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
