"""`python -m txmanager` is the command `txmanager`."""

from txmanager.cli import main

if __name__ == "__main__":
    main()
