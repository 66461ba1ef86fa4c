"""The scripts of benchmarks/speed import one another by bare name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "speed"))
