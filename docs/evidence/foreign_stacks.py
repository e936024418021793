"""Write the table of foreign-stacks.md: `python docs/evidence/foreign_stacks.py FOLDER > TABLE`.

Fetches each package with `npm pack` into FOLDER (once), unpacks its patch files there and imports
them with --dry-run. Run it in the repository's root after `nox -s fetch -- --all`.
"""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

AUTHOR = ("--author", "Nobody <nobody@example.org>", "--topic", "foreign", "--dry-run", "--json")
# package, version, folder of its patches, what its patches were made on by its own word, --strip
STACKS = (
    ("node-llama-cpp", "3.19.1", "llama/patches", "b10068", 1),
    ("node-llama-cpp", "3.20.0", "llama/patches", "b10361", 1),
    ("node-llama-cpp", "3.21.1", "llama/patches", "v0.4.0", 1),
    ("node-llama-cpp", "3.22.1", "llama/patches", "v0.5.0", 1),
    ("@fugood/llama.node", "1.7.15", "scripts", "b10257", 3),
    ("llama.rn", "0.12.9", "cpp", "b10256", 0),
    ("cui-llama.rn", "1.12.2", "cpp", "b10375", 0),
)


def unpack(room: Path, package: str, version: str) -> Path:
    """The patch files of a package, and nothing else of it."""
    target = room / f"{package.strip('@').replace('/', '-')}-{version}"
    if not target.is_dir():
        archive = target.with_suffix(f"{target.suffix}.tgz")
        if not archive.exists():
            asked = ("npm", "pack", "--silent", f"{package}@{version}")
            subprocess.run(asked, cwd=room, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(archive) as tar:
            names = [m for m in tar.getmembers() if m.name.endswith((".patch", ".diff"))]
            tar.extractall(target, names, filter="data")
    return target / "package"


def describe(folder: Path, strip: int) -> tuple[str, str, str, str]:
    """Patches, the base found, how many apply to each version, how they reach the series."""
    command = (sys.executable, "-m", "series.importing", str(folder), "--strip", str(strip))
    where = ("--upstream", "snapshots", *AUTHOR)
    done = subprocess.run((*command, *where), capture_output=True, text=True, check=False)
    if not done.stdout:
        count = sum(1 for _ in folder.glob("*.patch"))
        said = done.stderr.splitlines()[0].rsplit(".patch: ", 1)[-1]
        return str(count), "none", "none", f"refused: {said}"
    found = json.loads(done.stdout)
    cells = [f"{t['version']}{'+' if t['own_tip'] else ''} {t['applied']}" for t in found["tried"]]
    ends = ", ".join(sorted({p["status"] for p in found["patches"]}))
    return str(len(found["patches"])), found["base"] or "none", ", ".join(cells), ends


def main() -> None:
    """One row a stack."""
    room = Path(sys.argv[1])
    room.mkdir(parents=True, exist_ok=True)
    print("| package | version | made on | patches | base found | applied per version tried | end |")
    print("|---|---|---|---|---|---|---|")
    for package, version, place, made_on, strip in STACKS:
        row = describe(unpack(room, package, version) / place, strip)
        print(f"| {package} | {version} | {made_on} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
