"""`python -m nodeproof`."""

from nodeproof.cli import main

main()
