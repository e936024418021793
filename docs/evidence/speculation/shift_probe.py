"""What a drafter holds behind a context shift: python docs/evidence/speculation/shift_probe.py LLAMA_SERVER FOLDER

The server is the stack with shift_probe.diff: LAB_LATE reads behind the shift what was put off, as the patch once did;
LAB_AGAIN=n lets a drafter that puts nothing off read its last n tokens once more behind it. The drafter is the twin of
shifted_drafts.py: where it has read what its target has, its blocks hold the same keys and values. Prints accepted and drafted
tokens, and at the second draft behind the shift the positions at which the memories differ by more than 1e-3 of the
largest number, and the largest difference in the first block.
"""

import os
import sys
from functools import partial
from pathlib import Path
from struct import unpack_from

import numpy as np

sys.path.insert(0, os.fspath(Path(__file__).parents[3] / "series" / "checks"))

import shifted_drafts as shifted
import spec_adaptive_deferred as deferred

ADAPTIVE, FIXED = {"spec_draft_adaptive": None}, {"spec_draft_n_max": 2}
ARMS = {
    "flag": (ADAPTIVE, {}),
    "flag, read behind the shift": (ADAPTIVE, {"LAB_LATE": "1"}),
    "length 2": (FIXED, {}),
    "length 2, two tokens again": (FIXED, {"LAB_AGAIN": "2"}),
}


def read_memory(path: Path) -> tuple[list[int], list[tuple[np.ndarray, np.ndarray]]]:
    """The positions, and keys and values of each block [position, width], of llama_state_seq_save_file."""
    data = path.read_bytes()
    at = 12 + 4 * unpack_from("<I", data, 8)[0]
    n_cells = unpack_from("<I", data, at + 4)[0]  # of the first slot, whose stream is the first
    cells = np.frombuffer(data, "<i4", 3 * n_cells, at + 8).reshape(-1, 3)  # position, 1, sequence
    at += 8 + 12 * n_cells
    transposed, n_layers = unpack_from("<II", data, at)
    assert not transposed, "needs flash attention"
    at, rows, order = at + 16, [], np.argsort(cells[:, 0])
    for _ in range(2 * n_layers):
        size = unpack_from("<Q", data, at + 4)[0]
        found = np.frombuffer(data, "<f2", n_cells * size // 2, at + 12).reshape(n_cells, -1)
        rows.append(found[order].astype(np.float32))
        at += 12 + n_cells * size
    return cells[order, 0].tolist(), list(zip(rows[:n_layers], rows[n_layers:], strict=True))


def differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The largest difference at each position, of the largest number."""
    return np.abs(one - other).max(axis=1) / np.abs(other).max()


def compare(dump: Path) -> str:
    """What drafter and target hold."""
    (positions, drafter), (wanted, target) = (
        read_memory(Path(f"{dump}1.{name}")) for name in ("dft", "tgt")
    )
    assert positions == wanted == list(range(len(wanted))), "each position once"
    found = [[differ(*pair) for pair in zip(*both, strict=True)] for both in zip(drafter, target)]
    where = sorted({int(p) for both in found for each in both for p in np.flatnonzero(each > 1e-3)})
    key, value = (each.max() for each in found[0])
    return (
        f"positions 0 to {wanted[-1]} both, other at {where}, first block K {key:.1g} V {value:.1g}"
    )


def main() -> None:
    server, folder = (Path(word).absolute() for word in sys.argv[1:3])
    shifted.write_drafter(folder)
    for n_prompt in (240, 244, 250):
        talk = partial(deferred.complete, prompt=deferred.words(n_prompt), n_predict=60)
        for name, (options, variables) in ARMS.items():
            os.environ.update(variables, LAB_DUMP=os.fspath(folder / "memory"))
            _, answer = deferred.play(server, folder, "probe", talk, **shifted.SHIFT, **options)
            for variable in variables:
                del os.environ[variable]
            timings = answer["timings"]
            accepted = f"{timings['draft_n_accepted']} of {timings['draft_n']}"
            print(f"prompt {n_prompt}, {name}: {accepted}; {compare(folder / 'memory')}")


if __name__ == "__main__":
    main()
