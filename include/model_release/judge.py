"""The former name of `python -m include.model_release.canary`, which replays recorded windows."""

import sys

from include.model_release.canary.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
