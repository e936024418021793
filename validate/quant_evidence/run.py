"""The whole run: files, logits, divergences, speeds, weight errors; each is kept at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from upstream.lab import Lab, require_space
from upstream.progress import Meter, show_progress
from validate.artifacts import StepBinaries
from validate.corpus import Corpus
from validate.divergence import CONTEXT, Recording, record
from validate.float_model import open_float_room
from validate.guards import Placement
from validate.machine import machine_fingerprint
from validate.quant_evidence.cpu_speed import (
    CELLS,
    Arm,
    Contest,
    Speed,
    find_unfit,
    is_repacked,
    measure_cpu_speed,
)
from validate.quant_evidence.document import Document, Row, document_model, document_weights
from validate.quant_evidence.files import Quantised, quantise
from validate.quant_evidence.float_weights import MINILM, list_matrices, provide_float_weights
from validate.quant_evidence.place import Builds, describe_origin
from validate.quant_evidence.quality import POSITIONS, Quality, measure_quality
from validate.quant_evidence.schemes import Scheme
from validate.quant_evidence.weight_error import (
    SIZES,
    Libraries,
    find_library,
    measure_normal,
    measure_tensors,
)
from validate.room import Model, Room

LOGGER = logging.getLogger("lab")
LOGITS_MEGABYTES = 0.55  # of a position with the largest vocabulary we know, 262,144 words


@dataclass(frozen=True)
class Plan:
    """How much is measured: rounds 0 leaves out the speed, `repacked` whether that of files with
    repacked weights is measured as well. facts: what the run was made with.

    native: the file types that upstream's own llama-quantize knows. Their quality is judged by
    upstream's programs, so that no patch of the stack has a part in it, and that of other types by
    the stack's; the reference's logits are upstream's for all.
    """

    builds: Builds
    schemes: Sequence[Scheme]
    native: frozenset[str]
    corpus: Corpus
    rounds: int
    placement: Placement
    seed: int
    facts: Mapping[str, Any]
    repacked: bool = True

    def judge_of(self, scheme: Scheme) -> StepBinaries:
        """The build that reads a scheme's file for its quality."""
        return self.builds.base if scheme.asked in self.native else self.builds.tip


@dataclass(frozen=True)
class Task:
    """The model that is being measured: its F16 copy, its logits, its files."""

    reference: Room
    recording: Recording
    files: Sequence[Quantised]


def measure_model(lab: Lab, model: Model, plan: Plan, threads: int) -> Document:
    """All tables of one model. Raises InvalidMeasurement when a program fails."""
    LOGGER.info("%s: %d file types, %d chunks", model.name, len(plan.schemes), plan.corpus.chunks)
    room = Room(lab, model, threads)
    with show_progress(f"{model.name}: files and divergence", 2 * len(plan.schemes) + 1) as meter:
        task = _prepare(room, plan, meter)
        qualities = list(_measure_qualities(task, plan, meter))
    speeds, unfit = _measure_speeds(task, plan) if plan.rounds else ({}, [])
    rows = [
        Row(file, quality, speeds.get(file.scheme.name, {}))
        for file, quality in zip(task.files, qualities, strict=True)
    ]
    return document_model(model.name, _describe(model, task, plan), rows, unfit, plan.facts)


def _prepare(room: Room, plan: Plan, meter: Meter) -> Task:
    """The F16 reference, its logits and all files; the same file twice is left out."""
    reference = open_float_room(room, plan.builds.base, "F16")
    files: list[Quantised] = []
    for scheme in plan.schemes:
        encoder = plan.builds.base if scheme.upstream else plan.builds.tip
        file = quantise(reference, scheme, encoder)
        meter.advance(1)
        if any(file.room.model.sha256 == other.room.model.sha256 for other in files):
            LOGGER.info("%s: the same bytes as another type's file, left out", scheme.name)
            meter.advance(1)
            continue
        files.append(file)
    positions = POSITIONS * plan.corpus.chunks
    require_space(room.lab, int(LOGITS_MEGABYTES * positions), "the reference's logits")
    recording, _ = record(reference, plan.corpus, plan.builds.base)
    meter.advance(1)
    return Task(reference, recording, _drop_unchanged(files))


def _drop_unchanged(files: Sequence[Quantised]) -> list[Quantised]:
    """Where the stack changes nothing, the upstream row stands for both under the type's name."""
    names = {file.scheme.name for file in files}
    return [
        replace(file, scheme=replace(file.scheme, name=plain))
        if file.scheme.upstream and (plain := file.scheme.name.split(" ")[0]) not in names
        else file
        for file in files
    ]


def _measure_qualities(task: Task, plan: Plan, meter: Meter) -> Iterator[Quality]:
    for file in task.files:
        judge = plan.judge_of(file.scheme)
        yield measure_quality(file.room, plan.corpus, judge, task.recording)
        meter.advance(1)


def _measure_speeds(
    task: Task, plan: Plan
) -> tuple[dict[str, dict[str, dict[str, Speed]]], list[str]]:
    """Speeds by scheme, repacking and cell; and what makes them invalid."""
    contest = Contest(plan.builds.tip, plan.placement, machine_fingerprint(), plan.seed)
    plain = [Arm(file.scheme.name, file.room) for file in task.files]
    changed = [arm for arm in plain if plan.repacked and is_repacked(arm, contest)]
    packed = [replace(arm, repack=True) for arm in changed]
    arms = [plain[0], plain[0], *plain[1:], *packed]
    with show_progress("speed of the files", 2 * len(arms) * plan.rounds) as meter:
        measured = measure_cpu_speed(contest, arms, plan.rounds, lambda: meter.advance(1))
    found: dict[str, dict[str, dict[str, Speed]]] = {}
    for index, (arm, cells) in enumerate(zip(arms, measured, strict=True)):
        if index != 1:
            found.setdefault(arm.name, {})["on" if arm.repack else "off"] = cells
    return found, find_unfit(measured[1])


def _describe(model: Model, task: Task, plan: Plan) -> Document:
    reference = task.reference.model
    return {
        "origin": describe_origin(model.name),
        "packaged file": model.name,
        "packaged sha256": model.sha256,
        "file": reference.name,
        "sha256": reference.sha256,
        "bytes": (reference.folder / reference.name).stat().st_size,
        "perplexity": task.recording.perplexity,
        "chunks": plan.corpus.chunks,
        "positions": POSITIONS * plan.corpus.chunks,
        "context": CONTEXT,
        "text sha256": plan.corpus.sha256,
        "rounds": plan.rounds,
        "speed threads": plan.placement.threads,
        "cells": list(CELLS),
    }


def measure_weights(lab: Lab, plan: Plan) -> Document:
    """The tables of weight errors."""
    libraries = Libraries(find_library(plan.builds.tip), find_library(plan.builds.base))
    path = provide_float_weights(lab)
    tensors = list_matrices(path)
    cache = Room(lab, Model(path.parent, path.name, "")).cache
    with show_progress("weight errors", len(SIZES) + 2) as meter:
        normal = {}
        for size in SIZES:
            normal[size] = measure_normal(cache, libraries, size)
            meter.advance(1)
        real = measure_tensors(cache, libraries, path, tensors)
    source = {
        "package": f"{MINILM.package} {MINILM.version}",
        "file": path.name,
        "matrices": len(tensors),
        "weights": sum(each.rows * each.columns for each in tensors),
    }
    return document_weights(normal, real, source, plan.facts)
