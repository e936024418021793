"""When the generator of shaders runs again, and what it sees and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.validate.isa_stand_ins import (
    SHADERS,
    VULKAN,
    ScriptRoot,
    make_root,
    write_program,
    write_tree,
)
from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate.glslc_features import Feature
from validate.isa import generator
from validate.isa.generator import Generated
from validate.isa.workshop import Workshop, Yard


def test_the_generator_runs_again_only_for_another_list_of_shaders(
    shop: Workshop, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generator is a stand-in that fails at its second run, as one that is interrupted does."""
    ran = list[str]()

    def run(_shop: object, _place: object, yard: Yard, _features: object, folder: Path) -> None:
        ran.append(yard.subtree)
        (folder / generator.COMMANDS).write_text('{"a": ["-c", "a.comp"]}')
        if len(ran) == 2:
            raise InvalidMeasurement("interrupted")

    def generate(features: list[Feature], fingerprint: str, **files: str) -> Generated:
        paths = {"host": f"{VULKAN}/h.cpp", "generator": f"ggml/{generator.GENERATOR}"}
        found = {paths.get(name, f"{SHADERS}/{name}.comp"): text for name, text in files.items()}
        with shop.yard(shop.subtree(write_tree(shop, lab, found))) as yard:
            return generator.generate(shop, place, yard, features, fingerprint)

    monkeypatch.setattr(generator, "run_generator", run)
    place = make_root(tmp_path, {})
    first = generate([], "1", generator="1", a="1", host="1")
    assert first.commands == {"a": ("-c", "a.comp")}
    assert generate([], "1", generator="1", a="2", host="2") == first
    assert len(ran) == 1
    with pytest.raises(InvalidMeasurement):
        generate([], "1", generator="2", a="1")
    feature = Feature("E", "E_SUPPORT", supported=True)
    others = [
        generate([], "1", generator="2", a="1"),
        generate([], "1", generator="1", a="1", b="1"),
        generate([feature], "1", generator="1", a="1"),
        generate([], "2", generator="1", a="1"),
    ]
    assert len({first.folder, *(each.folder for each in others)}) == 5
    assert len(ran) == 6


# As upstream's: asks glslc for the shader that it is told. If it read it, the code would show it.
GENERATOR = r"""
while [ $# -gt 0 ]; do
    case $1 in
    --glslc) glslc=$2;; --source) source=$2;; --target-cpp) cpp=$2;; --target-hpp) hpp=$2;;
    esac
    shift 2
done
[ "$source" ] || { echo "extern int a;" >"$hpp"; exit; }
name=$(basename "$source" .comp)
"$glslc" -fshader-stage=compute "$source" -o "${name}_f32.spv" -DA=1
{ printf '#include "ggml-vulkan-shaders.hpp"\n\nint %s;\n' "$name"; cat "$source"; } >"$cpp"
exit 0
"""
NOTE = r"""printf '%s\0' "$@" >>"$0.log"; echo >>"$0.log"
"""


def test_the_generator_sees_names_of_shaders_and_their_header_is_included_once(
    shop: Workshop, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("generator", GENERATOR), ("note", NOTE)):
        write_program(tmp_path / name, text)
    monkeypatch.setattr(generator, "_build", lambda *_: tmp_path / "generator")
    monkeypatch.setattr(generator, "_build_recorder", lambda _: tmp_path / "note")
    make_root(tmp_path, {})
    place = ScriptRoot(shop.folder, tmp_path / "root")
    files = (f"ggml/{generator.GENERATOR}", f"{SHADERS}/a.comp", f"{SHADERS}/b.comp")
    tree = write_tree(shop, lab, dict.fromkeys(files, "int read;"))
    with shop.yard(shop.subtree(tree)) as yard:
        found = generator.generate(shop, place, yard, [], "1")
    shader = f"{generator.SHADERS}/a.comp"
    assert found.commands["a_f32"] == ("-fshader-stage=compute", shader, "-DA=1")
    text = (found.folder / generator.DATA).read_text()
    assert text == '#include "ggml-vulkan-shaders.hpp"\n\nint a;\n\nint b;\n'
