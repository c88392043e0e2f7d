import sys

from txmanager.programs.monitor import main

if __name__ == "__main__":
    sys.exit(main())
