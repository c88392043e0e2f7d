import sys

from txmanager.programs.signer import main

if __name__ == "__main__":
    sys.exit(main())
