import sys

from txmanager.programs.gateway import main

if __name__ == "__main__":
    sys.exit(main())
