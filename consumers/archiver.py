import sys

from txmanager.programs.archiver import main

if __name__ == "__main__":
    sys.exit(main())
