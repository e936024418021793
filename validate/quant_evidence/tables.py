"""The Markdown tables, made from kept documents alone: the same documents give the same text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from validate.quant_evidence.document import Document

METHOD = Path(__file__).with_name("method.md")
BASELINE = "Q4_0"
DUAL, FAST = "Q4_0_ROCMFP4", "Q4_0_ROCMFP4_FAST"
SIX, WIDE_EIGHT = "Q6_0_ROCMFPX", "Q8_0_ROCMFPX"
BESIDE = (
    (DUAL, BASELINE),
    (DUAL, "IQ4_NL"),
    (FAST, "IQ4_XS"),
    (SIX, "Q6_K"),
    (WIDE_EIGHT, "Q8_0"),
    (WIDE_EIGHT, SIX),
)
FEW = 5  # patches that are named one by one
_ORDER = {"model": 0, "weights": 1}


def format_documents(documents: Sequence[Document]) -> str:
    """All tables, models first."""
    parts = [METHOD.read_text().rstrip()]
    for document in sorted(documents, key=lambda each: _ORDER[each["kind"]]):
        parts += format_model(document) if document["kind"] == "model" else format_weights(document)
    return "\n\n".join(parts) + "\n"


def format_model(document: Document) -> Iterator[str]:
    """The tables of one model."""
    reference = document["reference"]
    yield f"## {document['model']}"
    yield _describe(document)
    yield "\n".join(_quality_table(document["rows"]))
    share = 100 * -math.log(0.05) / reference["positions"]
    covered = 100 * (1 - 0.999 ** reference["positions"])
    yield (
        f"KLD in nats over {reference['positions']} positions ({reference['chunks']} chunks of "
        f"{reference['context']}). Above the maximum: at most {share:.2g} % of positions. The "
        f"interval of the 99.9 % quantile covers with {covered:.0f} %."
    )
    for name, shift in document["encoders"].items():
        yield f"{name}, the stack's encoder against upstream's: {_estimate(shift, '+.4f')} a chunk."
    yield "\n".join(_census(row) for row in document["rows"])
    if any(row["speed"] for row in document["rows"]):
        yield from _format_speed(document)


def _describe(document: Document) -> str:
    reference = document["reference"]
    return (
        f"{reference['origin']} (sha256 {reference['packaged sha256'][:16]}). Reference: F16, "
        f"{reference['bytes'] / 1e6:.1f} MB, perplexity {reference['perplexity']:.4f}. "
        f"{describe_facts(document['facts'])}"
    )


def describe_facts(facts: Mapping[str, Any]) -> str:
    """Of what and where a document was measured."""
    machine = facts.get("machine", {})
    patches = [name.removesuffix(".patch") for name in facts.get("patches", [])]
    stack = (
        f"{len(patches)} patches, the last {patches[-1]}"
        if len(patches) > FEW
        else ", ".join(patches)
    )
    return (
        f"Upstream {facts.get('upstream', 'unknown')}; stack: {stack or 'none'} (tree "
        f"{facts.get('tip', '')[:12]}); {machine.get('cpu', 'unknown CPU')}, "
        f"{machine.get('cores', '?')} cores."
    )


def _quality_table(rows: Sequence[Document]) -> Iterator[str]:
    yield (
        "| type | MB | bits | PPL | mean KLD | against Q4_0 | 99.9 % KLD | maximum | same top % |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        found = row["quality"]
        cells = (
            row["scheme"],
            f"{row['bytes'] / 1e6:.1f}",
            f"{row['bits']:.2f}",
            _figure(found["perplexity"], ".3f"),
            _figure(found["mean"], ".4f"),
            _estimate(row["mean over baseline"], "+.4f"),
            _figure(found["p999"], ".3f"),
            f"{found['maximum']:.3f}",
            _figure(found["same_top"], ".1f"),
        )
        yield _row(cells)


def _census(row: Document) -> str:
    total = sum(row["census"].values())
    parts = ", ".join(f"{100 * n / total:.1f} % {name}" for name, n in row["census"].items())
    encoder = ", upstream's encoder" if row["encoder"] == "upstream" else ""
    return f"* {row['scheme']}: `llama-quantize {row['how']}`{encoder}; {parts}"


def _format_speed(document: Document) -> Iterator[str]:
    reference = document["reference"]
    cells: Sequence[str] = reference["cells"]
    head = "".join(f" {cell} t/s | {cell} against Q4_0 % |" for cell in cells)
    lines = [f"| type | repacking |{head}", f"|---|---|{'--:|--:|' * len(cells)}"]
    for row in document["rows"]:
        for repack, found in row["speed"].items():
            values = []
            for cell in cells:
                is_baseline = row["scheme"] == BASELINE and repack == "off"
                values += [
                    f"{found[cell]['median']:.1f}",
                    "1" if is_baseline else _percent(found[cell]["ratio"]),
                ]
            lines.append(_row((row["scheme"], repack, *values)))
    yield "\n".join(lines)
    invalid = document["speed invalid"]
    verdict = f"**Invalid**: {'; '.join(invalid)}." if invalid else "The control found nothing."
    yield (
        f"CPU alone, {reference['speed threads']} thread(s), {reference['rounds']} rounds, two "
        f"processes a file and round. {verdict}"
    )


def format_weights(document: Document) -> Iterator[str]:
    """The tables of weight errors, and where the formats lose."""
    yield "## Weight error"
    yield (
        "Squared error over squared weights, by the step's own C encoder (libggml-base through "
        'ctypes). No imatrix; "importance 1" is an imatrix of ones. Left: Gaussian weights of that '
        "standard deviation (262,144 each). Right: all float32 matrices of "
        f"{document['source']['package']} ({document['source']['matrices']} matrices, "
        f"{document['source']['weights']:,} weights, never quantised), and those whose rows are a "
        "multiple of 256; the interval is that of a matrix (median shift of the logarithms). MB/s: "
        "float32 input a CPU second on the machine of the run."
    )
    yield describe_facts(document["facts"])
    yield "\n".join(_weights_table(document))
    losses = list(find_losses(document))
    yield "Where they lose:"
    yield "\n".join(f"* {each}" for each in losses) or "* nowhere in these tables"


def _weights_table(document: Document) -> Iterator[str]:
    sizes = list(document["normal"])
    yield _row(("encoder", *sizes, "real", "matrix", "real, 256", "MB/s"))
    yield "|---|" + "--:|" * (len(sizes) + 4)
    real = {each["encoding"]: each for each in document["real"]}
    for error in document["normal"][sizes[0]]:
        name = error["encoding"]
        values = [_nmse(document["normal"][size], name) for size in sizes]
        found = real.get(name)
        yield _row((name, *(f"{value:.2e}" for value in values), *_real_cells(found)))


def _real_cells(found: Mapping[str, Any] | None) -> tuple[str, ...]:
    if found is None:
        return ("", "", "", "")
    figure = found["nmse"]
    interval = f"{figure['low']:.2e} to {figure['high']:.2e}"
    wide = f"{found['wide']:.2e}" if found["wide"] is not None else ""
    return (f"{figure['value']:.2e}", interval, wide, f"{found['speed']:.0f}")


def find_losses(document: Document) -> Iterator[str]:
    """In words: where a ROCmFPx type has a larger error than the type it stands beside."""
    weights = {f"standard deviation {size}": found for size, found in document["normal"].items()}
    weights["real weights"] = document["real"]
    for mine, other in BESIDE:
        ratios = {
            name: a / b
            for name, found in weights.items()
            if (a := _nmse(found, mine)) > (b := _nmse(found, other))
        }
        if ratios:
            times = ", ".join(f"{name} ({ratio:.3g} times)" for name, ratio in ratios.items())
            yield f"{mine} has a larger error than {other} at {times}"


def _nmse(found: Iterable[Document], name: str) -> float:
    return next((each["nmse"]["value"] for each in found if each["encoding"] == name), math.nan)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figure(figure: Mapping[str, float], form: str) -> str:
    return f"{figure['value']:{form}} [{figure['low']:{form}}, {figure['high']:{form}}]"


def _estimate(estimate: Mapping[str, Any] | None, form: str) -> str:
    if estimate is None:
        return "0"
    if estimate["low"] is None:
        return f"{estimate['center']:{form}} (too few chunks)"
    return f"{estimate['center']:{form}} [{estimate['low']:{form}}, {estimate['high']:{form}}]"


def _percent(estimate: Mapping[str, Any]) -> str:
    values = [estimate[name] for name in ("center", "low", "high")]
    center, low, high = (None if v is None else 100 * math.expm1(v) for v in values)
    return f"{center:+.1f} [{low:+.1f}, {high:+.1f}]" if low is not None else f"{center:+.1f}"
