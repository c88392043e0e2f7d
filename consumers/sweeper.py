import sys

from txmanager.programs.sweeper import main

if __name__ == "__main__":
    sys.exit(main())
