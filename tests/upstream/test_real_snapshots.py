"""Real packages of the real index: the trees are upstream's, in time and in little memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from tests.upstream.commands import ROOT
from upstream.download import download
from upstream.index import open_index, read_packages
from upstream.lab import APP_NAME, Lab
from upstream.version import Version

# Measured once with plain git on the unpacked packages, not with the code under test.
TREES = {
    11549: "ee320e359dbb0816d6bd0d873585a3ca932e9313",
    10566: "08b8193169e228f9d36f4c2bd7d3f5dbdf530085",
}
# Processor time of an import with all its children, about 3 s; the wall time on an idle core. Wall
# time itself says more about what else the machine does: the 15 s that are wanted are 5 times this.
SECONDS = 8
KILOBYTES = 500_000
IMPORT = """
import json, os, resource, sys, time
from upstream.lab import open_lab
from upstream.provider import open_upstream
from upstream.version import Version
upstream = open_upstream(open_lab(), "snapshots", None)
results = []
for build in map(int, sys.argv[1:]):
    started, used = time.monotonic(), sum(os.times()[:4])
    tree = upstream.git.tree_of(upstream.provide(Version(build)))
    results.append([build, tree, time.monotonic() - started, sum(os.times()[:4]) - used])
who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
print(json.dumps([results, [resource.getrusage(each).ru_maxrss for each in who]]))
"""


@pytest.fixture
def downloaded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The test's lab with the packages in it; they are downloaded once per machine."""
    cache = Lab(user_cache_path(APP_NAME) / "test-packages")
    cache.root.mkdir(parents=True, exist_ok=True)
    lab.downloads.mkdir()
    with open_index() as index:
        packages = read_packages(index)
        for build in TREES:
            path = download(cache, packages[Version(build)].file, index.session)
            shutil.copyfile(path, lab.downloads / path.name)
    return lab


@pytest.mark.upstream
def test_real_packages_give_upstreams_trees(downloaded: Lab, tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-c", IMPORT, *map(str, TREES)),
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results, peaks = json.loads(done.stdout)
    assert {build: tree for build, tree, *_ in results} == TREES
    assert max(used for *_, used in results) < SECONDS
    assert max(peaks) < KILOBYTES
    print(f"\nimported {results}, peak RSS {peaks} kB")  # noqa: T201
