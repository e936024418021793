"""Writing: the same bytes everywhere, whole files only, and every way it can go wrong."""

from __future__ import annotations

import fcntl
import hashlib
import json
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from gguf import GGUFReader
from gguf.quants import dequantize
from shape_model_runs import COMMAND, ROOT, call_shapes, run_shapes

from tests.small_disk import mount_small
from upstream.errors import EnvironmentFault, GateFailed, UsageError
from validate.shape_models.choices import Choice, make_recipe
from validate.shape_models.recipe import KEY
from validate.shape_models.shapes import PRESETS
from validate.shape_models.writer import check_model, half_name, plan_parts, write_model

TINY = [preset for preset in PRESETS if preset.startswith("tiny-")]
MODEL_DIGEST = "c95d126fa580c19b1b41e9a3aa9de67ad1c423b24161b3593c33e1bda9abdb80"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_the_same_bytes_on_every_machine_with_any_threads(tmp_path: Path) -> None:
    recipe = make_recipe("tiny-mtp", Choice(endless=True))
    for threads in (1, 3):
        write_model(recipe, tmp_path / f"{threads}.gguf", threads)
    assert digest(tmp_path / "1.gguf") == digest(tmp_path / "3.gguf") == MODEL_DIGEST
    other = make_recipe("tiny-mtp", Choice(endless=True, seed=2))
    write_model(other, tmp_path / "other.gguf", 1)
    assert digest(tmp_path / "other.gguf") != MODEL_DIGEST


@pytest.mark.parametrize("preset", TINY)
def test_gguf_reads_every_tiny_preset(preset: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    recipe = make_recipe(preset, Choice(kind="iq2_xs"))
    write_model(recipe, path, 2)
    reader = GGUFReader(path)
    found = {tensor.name: tuple(int(n) for n in tensor.shape) for tensor in reader.tensors}
    assert found == {part.tensor.name: part.tensor.shape for part in plan_parts(recipe)}
    last = reader.tensors[-1]
    assert (
        last.data_offset + last.n_bytes
        <= path.stat().st_size
        < last.data_offset + last.n_bytes + 32
    )
    floats = next(t for t in reader.tensors if t.name == "output_norm.weight")
    assert 1 <= floats.data.min() <= floats.data.max() < 1.13
    quants = next(t for t in reader.tensors if t.tensor_type.name == "IQ2_XS")
    assert dequantize(quants.data, quants.tensor_type).std() > 0


def test_a_finished_file_is_used_again(tmp_path: Path) -> None:
    path, recipe = tmp_path / "x.gguf", make_recipe("tiny-draft", Choice())
    assert not write_model(recipe, path, 1).reused
    before = path.stat().st_mtime_ns
    assert write_model(recipe, path, 1).reused
    assert path.stat().st_mtime_ns == before
    assert check_model(recipe, path, 2) == path.stat().st_size
    assert hidden(tmp_path) == []


def test_a_file_of_another_seed_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    write_model(make_recipe("tiny-draft", Choice(seed=1)), path, 1)
    before = digest(path)
    other = make_recipe("tiny-draft", Choice(seed=2))
    with pytest.raises(UsageError, match="its seed is 1, not 2") as refused:
        write_model(other, path, 1)
    assert "--replace" in refused.value.remedy
    with pytest.raises(UsageError, match="its seed is 1, not 2"):
        check_model(other, path, 1)
    assert digest(path) == before
    write_model(other, path, 1, replace=True)
    assert digest(path) != before


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    path, recipe = tmp_path / "x.gguf", make_recipe("tiny-draft", Choice())
    write_model(recipe, path, 1)
    with path.open("r+b") as file:
        file.seek(-7, 2)
        file.write(b"x")
    with pytest.raises(GateFailed, match=r"differs from its recipe in blk\.0\.ffn_up\.weight"):
        check_model(recipe, path, 1)


def test_files_that_are_no_shape_models(tmp_path: Path) -> None:
    path, recipe = tmp_path / "x.gguf", make_recipe("tiny-draft", Choice())
    path.write_bytes(b"precious")
    with pytest.raises(UsageError, match="is no GGUF file"):
        write_model(recipe, path, 1)
    assert path.read_bytes() == b"precious"
    path.unlink()
    write_model(recipe, path, 1)
    path.write_bytes(path.read_bytes()[:-50_000])
    with pytest.raises(UsageError, match=r"has \d+ bytes, not \d+"):
        write_model(recipe, path, 1)


def test_a_disk_without_room(tmp_path: Path) -> None:
    with mount_small(tmp_path / "small", "1m") as folder:
        with pytest.raises(EnvironmentFault, match=r"takes 0\.00 GB, .* has 0\.00 GB free"):
            write_model(make_recipe("tiny-mtp", Choice()), folder / "x.gguf", 1)
        assert list(folder.iterdir()) == []


def test_what_a_killed_run_left_is_room(tmp_path: Path) -> None:
    with mount_small(tmp_path / "small", "3m") as folder:
        half_name(folder / "x.gguf").write_bytes(bytes(2_000_000))
        write_model(make_recipe("tiny-mtp", Choice()), folder / "x.gguf", 1)
        assert [path.name for path in folder.iterdir()] == ["x.gguf"]


def test_a_disk_that_is_full_meanwhile(tmp_path: Path) -> None:
    """A limit on the size of files of a process: the same error at the same place."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        with pytest.raises(EnvironmentFault, match="cannot be written: File too large; nothing"):
            write_model(make_recipe("tiny-mtp", Choice()), tmp_path / "x.gguf", 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        write_model(make_recipe("tiny-draft", Choice()), tmp_path / "no" / "x.gguf", 1)


def start_writing(path: Path) -> subprocess.Popen[bytes]:
    """A run that has begun with the tensors of a file that takes a while."""
    words = [*COMMAND, "write", "moe-128", str(path), "--layers", "1", "--vocab", "600"]
    words += ["--threads", "1"]
    child = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL)
    half = half_name(path)
    while not (half.exists() and half.stat().st_size > 100_000_000):
        assert child.poll() is None
        time.sleep(0.002)
    return child


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_an_interrupted_file_never_has_its_name(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.gguf"
    child = start_writing(path)
    child.send_signal(number)
    assert child.wait(30) == code
    assert not path.exists()
    assert hidden(tmp_path) == ([] if number is signal.SIGINT else [".x.gguf.partial"])
    recipe = make_recipe("tiny-draft", Choice())
    write_model(recipe, path, 1)  # what a killed run left is no hindrance
    assert check_model(recipe, path, 1)
    assert hidden(tmp_path) == []


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    half = half_name(path)
    with half.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(EnvironmentFault, match="another run writes"):
            write_model(make_recipe("tiny-draft", Choice()), path, 1)
        assert half.exists()


def test_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    done = run_shapes("write", "tiny-draft", path, "--type", "mxfp4", "--json")
    assert done.returncode == 0, done.stderr
    (file,) = json.loads(done.stdout)["files"]
    assert (file["path"], file["size"]) == (str(path), path.stat().st_size)
    recipe = GGUFReader(path).fields[KEY].contents()
    assert json.loads(recipe)["mix"]["name"] == "MXFP4"
    assert call_shapes("check", "tiny-draft", path, "--type", "mxfp4") == 0
    with pytest.raises(UsageError, match="its mix is"):
        call_shapes("check", "tiny-draft", path)


def test_the_list_of_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_shapes("list", "--json") == 0
    rows = {row["preset"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == PRESETS.keys()
    assert rows["mtp-27b"]["layers"] == 65
    assert 15e9 < rows["dense-27b"]["bytes"] < 16e9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("write", "tiny-draft", "x.gguf", "--threads", "0"), "threads must be at least 1"),
        (("write", "tiny-draft", "x.gguf", "--skew", "-1"), "the skew not below 0"),
        (("write", "tiny-dflash", "x.gguf", "--for", "y.gguf", "--vocab", "600"), "vocabulary of"),
        (("set", "huge", "TMP"), "no set 'huge'"),
        (("rows", "x.gguf", "--tokens", "0"), "at least one token"),
    ],
)
def test_options_that_make_no_sense(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        call_shapes(*(str(tmp_path / "new") if word == "TMP" else word for word in words))
    assert list(tmp_path.iterdir()) == []
