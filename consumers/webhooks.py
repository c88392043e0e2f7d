import sys

from txmanager.programs.webhooks import main

if __name__ == "__main__":
    sys.exit(main())
