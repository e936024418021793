"""1,000 greedy requests on four reused slots, with --spec-draft-adaptive and without: text and memory.

    python docs/evidence/speculation/reused_slots.py LLAMA_SERVER FOLDER [REQUESTS]

Tiny random models of series/checks, one thread, four requests at a time of 16 to 24 tokens. Prints a line a
drafter as a table row: texts that differ, resident memory after a tenth and after all of them (KiB).
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, os.fspath(Path(__file__).parents[3] / "series" / "checks"))

import spec_adaptive_server as adaptive
import spec_draft_length as lengths

TWIN = lengths.Drafter("twin", "draft-simple", "target.gguf", "target.gguf")
SLOTS = 4
OPTIONS = {"-np": SLOTS, "-c": 256 * SLOTS}


def resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def serve(server: Path, folder: Path, drafter: lengths.Drafter, count: int, **flag: None) -> tuple:
    named = {f"--{key.replace('_', '-')}": value for key, value in flag.items()} | OPTIONS
    port = lengths.free_port()
    line = adaptive.command(server, folder, drafter, named, port)
    with lengths.serving(line, folder / "server.log") as process:
        lengths.wait_ready(process, port)

        def ask(n: int) -> list[int]:
            body = lengths.greedy(5 + n % 17, 16 + n % 9)
            return adaptive.ask(port, body)["tokens"]

        with ThreadPoolExecutor(SLOTS) as pool:
            texts = list(pool.map(ask, range(count // 10)))
            early = resident(process.pid)
            texts += list(pool.map(ask, range(count // 10, count)))
        return texts, early, resident(process.pid)


def main() -> None:
    server, folder, *rest = sys.argv[1:]
    count = int(rest[0]) if rest else 1000
    Path(folder).mkdir(parents=True, exist_ok=True)
    lengths.write_models(Path(folder))
    print("| drafter | different texts | resident memory, off | on |\n|---|---|---|---|")
    for drafter in (*lengths.DRAFTERS, TWIN):
        off = serve(Path(server), Path(folder), drafter, count)
        on = serve(Path(server), Path(folder), drafter, count, spec_draft_adaptive=None)
        different = sum(one != other for one, other in zip(off[0], on[0], strict=True))
        memory = " | ".join(f"{early}, {late} KiB" for _, early, late in (off, on))
        print(f"| {drafter.name} | {different} of {count} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
