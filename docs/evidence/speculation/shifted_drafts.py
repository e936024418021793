"""Drafts around a context shift: python docs/evidence/speculation/shifted_drafts.py LLAMA_SERVER FOLDER

The models of spec_adaptive_deferred.py, whose drafter has its target's output; a context of 256, prompts of 7 to 250
tokens, 60 tokens more. Prints accepted and drafted tokens with fixed lengths 1 and 4, and with --spec-draft-adaptive.
"""

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parents[3] / "series" / "checks"))

import spec_adaptive_deferred as deferred
import tiny_drafters as tiny

SHIFT = {"context_shift": None, "ctx_size": deferred.N_CTX * deferred.adaptive.N_SLOTS}
ARMS = ({"spec_draft_n_max": 1}, {"spec_draft_n_max": 4}, {"spec_draft_adaptive": None})


def write_drafter(folder: Path) -> None:
    tiny.write_target(folder / deferred.TWIN.model)
    tiny.write_slow_twin(folder / "slow-twin.gguf", deferred.TWIN.model, deferred.N_IDLE)


def main() -> None:
    server, folder = (Path(word).absolute() for word in sys.argv[1:3])
    write_drafter(folder)
    for n_prompt in (7, 200, 240, 244, 250):
        talk = partial(deferred.complete, prompt=deferred.words(n_prompt), n_predict=60)
        found = []
        for arm in ARMS:
            log, answer = deferred.play(server, folder, "shifted", talk, **SHIFT, **arm)
            timings = answer["timings"]
            shifts = log.count("slot context shift")
            found.append(f"{timings['draft_n_accepted']} of {timings['draft_n']}, {shifts} shifts")
        print(f"prompt {n_prompt}:", "; ".join(found))


if __name__ == "__main__":
    main()
