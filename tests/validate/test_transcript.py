"""The greedy transcript: read from llama-cli's output, shown and never a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_programs import make_room, make_step

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate.artifacts import StepBinaries
from validate.transcript import PROMPTS, TARGET, describe, parse_answer, show_transcript
from validate.verdict import Verdict

# As b11549 prints it, the banner shortened.
PRINTED = """

Loading model...

build      : b11549-lab

available commands:
  /exit or Ctrl+C     stop or exit



> Why is the sky blue?
Because of
> Rayleigh.


Exiting...
"""


def test_the_answer_is_cut_out() -> None:
    assert parse_answer(PRINTED, "Why is the sky blue?") == "Because of\n> Rayleigh."


@pytest.mark.parametrize(
    "output", ["", "Exiting...\n", PRINTED.replace("sky", "sea"), "> Why is the sky blue?\n\n"]
)
def test_no_answer_is_invalid(output: str) -> None:
    with pytest.raises(InvalidMeasurement, match="answered nothing"):
        parse_answer(output, "Why is the sky blue?")


def test_the_first_difference_is_shown() -> None:
    before = ["same"] * len(PROMPTS)
    after = [*before[:3], "sane", *before[4:]]
    said = describe(after, before)
    assert said.startswith(f"9 of 10 answers equal; first other: {PROMPTS[3]!r}, at character 2")
    assert describe(before, before) == "10 of 10 answers equal"
    assert "at character 4" in describe(["same and more", *before[1:]], before)


FAKE = 'print("> " + sys.argv[sys.argv.index("-p") + 1] + "\\n" + {answer!r} + "\\n\\nExiting...")'


def make_fake(folder: Path, answer: str) -> StepBinaries:
    return make_step(folder, {TARGET: FAKE.format(answer=answer)})


def test_another_answer_is_information_and_found_again(lab: Lab, tmp_path: Path) -> None:
    room, parent = make_room(lab), make_fake(tmp_path / "parent", "yes")
    step = make_fake(tmp_path / "step", "no")
    found = show_transcript(room, step, parent)
    assert found.verdict is Verdict.INFORMATION
    assert found.detail.startswith("0 of 10 answers equal")
    assert show_transcript(room, step, parent).cached
    assert show_transcript(room, parent, parent).verdict is Verdict.IDENTICAL
