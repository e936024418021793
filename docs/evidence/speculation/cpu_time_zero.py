"""CPU time a token of servers at acceptance 0, for a machine that is busy: interleaved, no interval.

    python docs/evidence/speculation/cpu_time_zero.py MODELS CORE ROUNDS NAME:FOLDER[:OPTIONS]...

MODELS is what models.py made; FOLDER holds llama-server with its libraries, OPTIONS are its own (without one: no
speculation). The order turns each round. A server answers 256 tokens first, then 3 x 512, all of one thread. Last line of
an arm: median CPU ms a token, and the time of the first arm divided by it, by medians and by minima.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import requests

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from validate.speculation.server import find_port

WARM_UP, TOKENS, REQUESTS = 256, 512, 3
HZ = os.sysconf("SC_CLK_TCK")


def read_cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HZ


def wait_ready(port: int) -> None:
    for _ in range(200):
        try:
            if requests.get(f"http://127.0.0.1:{port}/health", timeout=1).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.1)
    raise TimeoutError(f"no server at port {port}")


def ask(port: int, n: int) -> dict:
    body = {"prompt": [1, 2, 3, 4, 5, 6, 7], "n_predict": n, "ignore_eos": True, "temperature": 0}
    return requests.post(f"http://127.0.0.1:{port}/completion", json=body).json()["timings"]


def measure(folder: str, options: list[str], model: Path, core: str) -> float:
    port = find_port()
    words = ["taskset", "-c", core, f"{folder}/llama-server", "-m", model, *options, "-np", "1", "-c", "4096", "-t", "1"]
    words += ["-dev", "none", "-ngl", "0", "--port", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, env=os.environ | {"LD_LIBRARY_PATH": folder}, **quiet) as server:
        try:
            wait_ready(port)
            ask(port, WARM_UP)
            before = read_cpu(server.pid)
            for _ in range(REQUESTS):
                ask(port, TOKENS)
            return 1000 * (read_cpu(server.pid) - before) / (REQUESTS * TOKENS)
        finally:
            server.terminate()


def main() -> None:
    models, core, rounds, *arms = sys.argv[1:]
    parts = [(arm.split(":", 2) + [""])[:3] for arm in arms]
    found: dict[str, list[float]] = {name: [] for name, _, _ in parts}
    for number in range(int(rounds)):
        for name, folder, options in parts[:: 1 if number % 2 == 0 else -1]:
            found[name].append(measure(folder, options.split(), Path(models, "deep.gguf"), core))
            print(number, name, f"{found[name][-1]:.3f}", flush=True)
    first = found[parts[0][0]]
    for name, times in found.items():
        ratios = [of(first) / of(times) for of in (statistics.median, min)]
        print(f"{name}: {statistics.median(times):.3f} ms, {ratios[0]:.3f} by medians, {ratios[1]:.3f} by minima")


if __name__ == "__main__":
    main()
