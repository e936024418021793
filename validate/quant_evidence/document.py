"""What was measured, as the JSON document that is kept and from which the tables are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from validate.quant_evidence.cpu_speed import Speed
from validate.quant_evidence.files import Quantised
from validate.quant_evidence.quality import Quality, compare_chunks
from validate.quant_evidence.weight_error import Error
from validate.statistics import Estimate

Document = dict[str, Any]
VERSION = 1  # of the documents: tables are made only from their own


@dataclass(frozen=True)
class Row:
    """A scheme on a model; speed by "off" and "on" (repacking), where it was measured."""

    file: Quantised
    quality: Quality
    speed: Mapping[str, Mapping[str, Speed]]


def document_model(
    name: str,
    reference: Mapping[str, Any],
    rows: Sequence[Row],
    unfit: Sequence[str],
    facts: Mapping[str, Any],
) -> Document:
    """One model: its reference, a row for each scheme, what made the speeds invalid."""
    return {
        "kind": "model",
        "version": VERSION,
        "model": name,
        "reference": dict(reference),
        "facts": dict(facts),
        "speed invalid": list(unfit),
        "rows": [_document_row(row, rows[0]) for row in rows],
        "encoders": dict(_compare_encoders(rows)),
    }


def _compare_encoders(rows: Sequence[Row]) -> Iterator[tuple[str, Document]]:
    """For each type that the stack encodes otherwise: how much more a chunk diverges with it."""
    for row in rows:
        how = row.file.scheme.how
        twins = [each for each in rows if each.file.scheme.upstream and each is not row]
        for other in [each for each in twins if each.file.scheme.how == how]:
            shift = compare_chunks(row.quality, other.quality)
            yield row.file.scheme.name, _document_estimate(shift)


def _document_row(row: Row, baseline: Row) -> Document:
    shift = compare_chunks(row.quality, baseline.quality)
    return {
        "scheme": row.file.scheme.name,
        "how": row.file.scheme.how,
        "encoder": "upstream" if row.file.scheme.upstream else "stack",
        "file": row.file.room.model.name,
        "sha256": row.file.room.model.sha256,
        "bytes": row.file.size,
        "bits": row.file.bits,
        "census": dict(row.file.census),
        "quality": asdict(row.quality),
        "mean over baseline": _document_estimate(shift) if row is not baseline else None,
        "speed": {
            repack: {cell: _document_speed(speed) for cell, speed in cells.items()}
            for repack, cells in row.speed.items()
        },
    }


def _document_speed(speed: Speed) -> Document:
    return {"median": speed.median, "ratio": _document_estimate(speed.ratio)}


def _document_estimate(estimate: Estimate) -> Document:
    finite = estimate.quads and estimate.high < float("inf")
    return {
        "center": estimate.center,
        "low": estimate.low if finite else None,
        "high": estimate.high if finite else None,
        "number": estimate.quads,
    }


def document_weights(
    normal: Mapping[float, Sequence[Error]],
    real: Sequence[Error],
    source: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> Document:
    """Weight errors: by standard deviation of Gaussian weights, and of real float weights."""
    return {
        "kind": "weights",
        "version": VERSION,
        "source": dict(source),
        "facts": dict(facts),
        "normal": {
            str(size): [_document_error(each) for each in found] for size, found in normal.items()
        },
        "real": [_document_error(each) for each in real],
    }


def _document_error(error: Error) -> Document:
    document = asdict(error)
    if error.wide != error.wide:
        document["wide"] = None
    return document
