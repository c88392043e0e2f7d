import sys

from txmanager.programs.api import main

if __name__ == "__main__":
    sys.exit(main())
