"""Succeeds on the platform that constraints-hashed.txt was written for."""

import platform
import sys

here = (sys.platform, platform.machine(), sys.version_info[:2])
sys.exit(here != ("linux", "x86_64", (3, 11)))
