import sys

from txmanager.programs.worker import main

if __name__ == "__main__":
    sys.exit(main())
