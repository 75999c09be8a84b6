"""Record the sha256 of results for fixed seeds, or compare with what was recorded on the same machine.

python tests/golden/record.py            compare; exit 1 if something differs
python tests/golden/record.py --write    record again
python tests/golden/record.py --no-paper skip the reproduction (which needs STOCHATTN_DATA)

Last bits depend on the processor and on the versions of numpy and BLAS, so the recording is for work on one machine:
record before a change that must not alter results, and compare after it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import cases

RECORDING = Path(__file__).with_name("recorded.json")


def canonical(result: Any) -> bytes:
    """A deterministic encoding of a result as bytes."""
    if isinstance(result, dict):
        return b"".join(str(key).encode() + b":" + canonical(value) for key, value in result.items())
    if isinstance(result, str):
        return result.encode()
    if isinstance(result, (list, tuple)):
        return b"|".join(canonical(part) for part in result)
    if hasattr(result, "to_csv"):
        return result.to_csv(index=False).encode() + str(list(result.dtypes)).encode()
    if hasattr(result, "detach"):
        result = result.detach().cpu().numpy()
    if isinstance(result, (float, int)):
        return repr(float(result)).encode()
    array = np.ascontiguousarray(result)
    return f"{array.dtype}{array.shape}".encode() + array.tobytes()


def readable(result: Any) -> Any:
    """Readable values to print if they differ; None for arrays."""
    if isinstance(result, dict):
        shown = {key: readable(value) for key, value in result.items()}
        return {key: value for key, value in shown.items() if value is not None} or None
    if isinstance(result, (float, int)):
        return float(f"{result:.10g}")
    if isinstance(result, (list, tuple)) and all(isinstance(part, float) for part in result):
        return [float(f"{part:.10g}") for part in result]
    return None


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--no-paper", action="store_true")
    parser.add_argument("--only", default="", help="names that begin so")
    options = parser.parse_args()
    found = {}
    known = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    different = 0
    for name, result in cases.all_cases(options.only, paper=not options.no_paper):
        if not name.startswith(options.only):
            continue
        found[name] = {"sha256": hashlib.sha256(canonical(result)).hexdigest()}
        if (shown := readable(result)) is not None:
            found[name]["figures"] = shown
        if not options.write:
            before = known.get(name)
            if before is None or before["sha256"] != found[name]["sha256"]:
                different += 1
                print(f"differs: {name}" if before else f"not recorded: {name}")
                if before and before.get("figures") != found[name].get("figures"):
                    print(f"  before {before.get('figures')}\n  now    {found[name].get('figures')}")
    if options.write:
        RECORDING.write_text(json.dumps(found, indent=1) + "\n")
        print(f"recorded {len(found)} results in {RECORDING}")
        return 0
    gone = sorted(name for name in set(known) - set(found) if not options.only and not options.no_paper)
    for name in gone:
        print(f"no longer made: {name}")
    print(f"{len(found) - different} of {len(found)} results are as recorded")
    return 1 if different or gone else 0


if __name__ == "__main__":
    raise SystemExit(main())
