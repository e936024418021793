"""Write a shape model: metadata through gguf, tensors streamed by several threads.

The file gets its name when it is whole. After a power cut it may have its name without its bytes
(nothing is synced, that takes longer than making them): `check` shows it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from upstream.errors import EnvironmentFault, GateFailed, UsageError
from upstream.progress import show_progress
from validate.shape_models.files import ALIGNMENT, read_head
from validate.shape_models.mixes import choose_type
from validate.shape_models.recipe import KEY, Recipe
from validate.shape_models.tensors import list_tensors
from validate.shape_models.weights import Chunk, Part, list_chunks, make_chunk

_FLOATS = np.dtype(np.float32)  # the writer wants one; raw_dtype decides
AHEAD = 2  # chunks that wait for each thread
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TOKEN_BYTES = 100  # that a token takes in a header, at most


@dataclass(frozen=True)
class Written:
    """A finished file: its size in bytes and how long it took; `reused` if it was there before."""

    path: Path
    size: int
    seconds: float
    reused: bool = False

    @property
    def gigabytes_per_minute(self) -> float:
        """How fast it was written, 10^9 bytes."""
        return 60e-9 * self.size / self.seconds if self.seconds else 0.0


def plan_parts(recipe: Recipe) -> list[Part]:
    """All tensors, their types and places."""
    parts, offset = [], 0
    for tensor in list_tensors(recipe.shape, recipe.vocabulary.size):
        part = Part(tensor, choose_type(tensor, recipe.mix, recipe.shape), offset)
        parts.append(part)
        offset += padded(part.size)
    return parts


def padded(size: int) -> int:
    """Rounded up to the next place where a tensor may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def data_size(parts: list[Part]) -> int:
    """Bytes of all tensors with what lies between them."""
    return parts[-1].offset + padded(parts[-1].size)


def write_model(recipe: Recipe, path: Path, threads: int, *, replace: bool = False) -> Written:
    """Write the model unless it is there already.

    Raises UsageError when another model has this name, EnvironmentFault when the disk is too small
    or another run writes this file.
    """
    if path.exists() and not replace:
        require_same(recipe, path)
        return Written(path, path.stat().st_size, 0.0, reused=True)
    parts = plan_parts(recipe)
    require_room(path, data_size(parts) + TOKEN_BYTES * recipe.vocabulary.size)
    started = time.monotonic()
    with _explain_disk(path), _open_half(path) as half:
        begin = write_header(recipe, parts, half)
        with half.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, begin + data_size(parts))
            _write_tensors(recipe, parts, file.fileno(), begin, threads)
        half.replace(path)
    return Written(path, path.stat().st_size, time.monotonic() - started)


def require_same(recipe: Recipe, path: Path) -> None:
    """Refuse a file that is there and not this model, or not all of it."""
    head = read_head(path)
    found = head.text(KEY)
    if found != recipe.describe():
        why = "it is no shape model" if found is None else name_differences(found, recipe)
        raise UsageError(
            f"{path} is another model than the one asked for: {why}",
            remedy="name another file, or write over it: add --replace",
        )
    size = head.data + data_size(plan_parts(recipe))
    if path.stat().st_size != size:
        raise UsageError(
            f"{path} has {path.stat().st_size} bytes, not {size}",
            remedy="it was cut short: write over it, add --replace",
        )


def name_differences(found: str, recipe: Recipe) -> str:
    """Which parts of a recipe differ: `seed 2, not 1`."""
    has, wanted = json.loads(found), json.loads(recipe.describe())
    keys = [key for key in wanted if has.get(key) != wanted[key]]
    return "; ".join(f"its {key} is {has.get(key)}, not {wanted[key]}" for key in keys)


def require_room(path: Path, size: int) -> None:
    """Refuse a file that its disk has no room for."""
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", remedy="make it, or name another file")
    half = half_name(path)  # a killed run's is written over
    free = shutil.disk_usage(folder).free + (half.stat().st_size if half.exists() else 0)
    if free < size:
        raise EnvironmentFault(
            f"{path.name} takes {size / 1e9:.2f} GB, {folder} has {free / 1e9:.2f} GB free",
            remedy="free some space, name a larger disk, or leave out layers: --layers N",
        )


def write_header(recipe: Recipe, parts: list[Part], path: Path) -> int:
    """Write everything but the tensors' data, and give the place where that begins, in bytes."""
    writer = GGUFWriter(path, recipe.shape.arch)
    for key, entry in recipe.metadata().items():
        if key != "general.architecture":  # the writer has it
            writer.add_key_value(key, entry.value, entry.type, entry.item)
    for part in parts:
        shape = tuple(reversed(part.tensor.shape))
        writer.add_tensor_info(
            part.tensor.name, shape, _FLOATS, part.size, raw_dtype=part.type.kind
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    assert writer.fout
    end = writer.fout[0].tell()
    writer.close()
    return padded(end)


def _write_tensors(recipe: Recipe, parts: list[Part], fd: int, begin: int, threads: int) -> None:
    def work(chunk: Chunk) -> int:
        blocks = make_chunk(chunk, recipe.vocabulary.barred, recipe.skew)
        write_whole(fd, blocks.data.cast("B"), begin + chunk.offset)
        return chunk.size

    _for_all_chunks(recipe, parts, threads, work, f"writing {recipe.preset}")


def _for_all_chunks(
    recipe: Recipe, parts: list[Part], threads: int, work: Callable[[Chunk], int], title: str
) -> None:
    chunks = (chunk for part in parts for chunk in list_chunks(part, recipe.seed))
    with show_progress(title, data_size(parts)) as meter:
        for done in run_ahead(work, chunks, threads):
            meter.advance(done)


def run_ahead(work: Callable[[Chunk], int], chunks: Iterable[Chunk], threads: int) -> Iterator[int]:
    """Results in order, with so many threads and not more work waiting than they need.

    Threads are enough: numpy works without the interpreter's lock.
    """
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[int]] = deque()
    try:
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk))
            if len(waiting) > AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def write_whole(fd: int, data: memoryview, offset: int) -> None:
    """Write all of it: the system may take less at once."""
    while data:
        done = os.pwrite(fd, data, offset)
        data, offset = data[done:], offset + done


def check_model(recipe: Recipe, path: Path, threads: int) -> int:
    """Compare every byte of a file with what the recipe makes, and give their number.

    Raises GateFailed at the first difference.
    """
    require_same(recipe, path)
    parts = plan_parts(recipe)
    begin = path.stat().st_size - data_size(parts)
    with path.open("rb") as file:

        def work(chunk: Chunk) -> int:
            found = os.pread(file.fileno(), chunk.size, begin + chunk.offset)
            if make_chunk(chunk, recipe.vocabulary.barred, recipe.skew).tobytes() != found:
                raise GateFailed(
                    f"{path} differs from its recipe in {chunk.part.tensor.name}",
                    remedy="write it again with --replace",
                )
            return chunk.size

        _for_all_chunks(recipe, parts, threads, work, f"checking {path.name}")
    return path.stat().st_size


def half_name(path: Path) -> Path:
    """What a file is called until it is whole."""
    return path.with_name(f".{path.name}.partial")


@contextmanager
def _open_half(path: Path) -> Iterator[Path]:
    """A name for a file that is not whole yet; what a killed run left there is written over."""
    half = half_name(path)
    with half.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise EnvironmentFault(
                f"another run writes {path}", remedy="wait until it ends, or name another file"
            ) from error
        try:
            yield half
        finally:
            half.unlink(missing_ok=True)


@contextmanager
def _explain_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = "free some space, or name a file on a larger disk"
        if error.errno not in FULL:
            remedy = "name a file in a folder that you can write"
        raise EnvironmentFault(
            f"{path} cannot be written: {error.strerror}; nothing of it is left", remedy=remedy
        ) from error
