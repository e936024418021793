"""How many rounds of the measured request reused their graph: python docs/evidence/speculation/graph_reuse.py LOG...

LOG: logs of llama-server as lanes.py leaves them (lane-N/logs). The last request of each counts; rounds are its tokens
by the mean length that the server prints. One line for all logs together.
"""

import re
import sys
from pathlib import Path

TOKENS = 512  # of the measured request, as lanes.py asks for


def main() -> None:
    reused, rounds = 0, 0.0
    for name in sys.argv[1:]:
        text = Path(name).read_text(errors="replace")
        found = [int(each) for each in re.findall(r"graphs reused =\s+(\d+)", text)]
        lengths = [float(each) for each in re.findall(r"mean len =\s+([\d.]+)", text)]
        if len(found) > 1 and lengths:
            reused += found[-1] - found[-2]
            rounds += TOKENS / lengths[-1]
    print(f"{len(sys.argv) - 1} logs: {reused} of {rounds:.0f} rounds reused their graph, {reused / rounds:.3f}")


if __name__ == "__main__":
    main()
