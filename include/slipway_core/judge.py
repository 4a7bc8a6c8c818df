"""The former name of `python -m slipway_core.canary`, which replays recorded windows."""

import sys

from slipway_core.canary.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
