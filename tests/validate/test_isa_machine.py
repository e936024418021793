"""What the machine may lack: each is named with its remedy, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.validate.isa_stand_ins import (
    GFX1151,
    driver_that,
    make_compiler,
    make_root,
    mat_vec,
    write_program,
)
from upstream.errors import CommandError, EnvironmentFault, ExitCode, InvalidMeasurement
from upstream.git import Git
from upstream.lab import Lab
from validate.glslc_features import BACKEND, try_features
from validate.isa.compilers import compilers_at_hand, find_compilers, open_compiler
from validate.isa.place import Place, open_root
from validate.isa.recording import Bench, open_bench
from validate.isa.run import Session
from validate.isa.spirv import Shader, read_defaults
from validate.isa.statistics import NAMES, Request, ask_compilers
from validate.isa.variants import Variant
from validate.isa.workshop import Workshop, open_workshop
from validate.shader_root import COMPLETE

TEST_CALL = (
    'test_shader_extension_support(\n"GL_EXT_bfloat16"\n'
    '"${CMAKE_CURRENT_SOURCE_DIR}/vulkan-shaders/feature-tests/bfloat16.comp"\n'
    '"GGML_VULKAN_BFLOAT16_GLSLC_SUPPORT"\n)\n'
)


def test_a_driver_is_asked_for_its_device(tmp_path: Path) -> None:
    place = make_root(tmp_path, {"gcc": driver_that(f"echo '{GFX1151}'")})
    compiler = open_compiler(place)
    assert (compiler.name, compiler.shim) == ("Mesa 25.0.7 gfx1151", False)
    assert compiler.variables["RADV_FORCE_FAMILY"] == "gfx1151"
    assert compiler.fingerprint


def test_a_driver_with_neither_switch(tmp_path: Path) -> None:
    said = "RADV_FORCE_FAMILY=<family> has been removed. Please use AMDGPU drm-shim now."
    place = make_root(tmp_path, {"gcc": driver_that(f'echo "{said}" >&2; exit 1')})
    with pytest.raises(EnvironmentFault, match="neither switch") as raised:
        open_compiler(place)
    assert "toolchain" in raised.value.remedy


def test_a_driver_that_lists_no_device(tmp_path: Path) -> None:
    said = "pipeline_stats: the driver shows no device"
    place = make_root(tmp_path, {"gcc": driver_that(f'echo "{said}" >&2; exit 1')})
    with pytest.raises(EnvironmentFault, match="lists no device"):
        open_compiler(place)


def test_a_driver_that_shows_another_gpu(tmp_path: Path) -> None:
    place = make_root(tmp_path, {"gcc": driver_that(f"echo '{GFX1151}'")}, shim=True)
    with pytest.raises(EnvironmentFault, match="not strix1"):
        open_compiler(place)


def test_a_root_without_radv(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    with pytest.raises(EnvironmentFault, match="no RADV driver"):
        open_compiler(Place(tmp_path, tmp_path))


def test_a_half_made_root(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=COMPLETE) as raised:
        open_root(tmp_path, tmp_path)
    assert "made again" in raised.value.remedy


def test_a_root_for_somebody_who_is_not_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / COMPLETE).write_text("suite trixie\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentFault, match="takes root"):
        open_root(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("user", "said"), [(0, "debootstrap is missing"), (1000, "must run as root")]
)
def test_a_machine_on_which_no_root_can_be_made(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch, user: int, said: str
) -> None:
    """PATH holds what the script takes before it gives up, and an `id` that names the user."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name in ("bash", "sh", "awk", "realpath", "dirname", "cat", "env", "ls", "sed"):
        (binaries / name).symlink_to(str(shutil.which(name)))
    write_program(binaries / "id", f"echo {user}")
    monkeypatch.setenv("PATH", str(binaries))
    with pytest.raises(CommandError, match=said) as raised:
        find_compilers(lab, tmp_path, [])
    assert raised.value.exit_code is ExitCode.ENVIRONMENT
    assert "debootstrap" in raised.value.remedy


def test_nothing_is_made_for_a_check(lab: Lab, tmp_path: Path) -> None:
    assert compilers_at_hand(lab, tmp_path) is None


def test_no_compiler_that_carries_the_backend(tmp_path: Path, lab: Lab) -> None:
    place = make_root(tmp_path, {"gcc": driver_that(f"echo '{GFX1151}'")})
    git = Git(lab.repository)
    git.create()
    with (
        open_workshop(lab, git) as shop,
        pytest.raises(EnvironmentFault, match="drm-shim") as raised,
    ):
        open_bench(shop, [open_compiler(place)])
    assert "trixie-backports" in raised.value.remedy


def test_a_damaged_cache_says_what_to_remove(lab: Lab) -> None:
    folder = lab.root / "isa"
    folder.mkdir()
    (folder / "known.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(EnvironmentFault, match=r"known\.sqlite") as raised:
        open_workshop(lab, Git(lab.repository)).__enter__()
    assert "remove" in raised.value.remedy


@pytest.mark.parametrize(
    ("body", "supported"),
    [
        ("exit 0", True),
        ("echo 'error: extension not supported: GL_EXT_bfloat16' >&2; exit 1", False),
    ],
)
def test_a_feature(tmp_path: Path, body: str, supported: bool) -> None:
    place = make_root(tmp_path, {"glslc": body})
    (feature,) = try_features(place.glslc, make_ggml(tmp_path, TEST_CALL))
    assert feature.variable == "GGML_VULKAN_BFLOAT16_GLSLC_SUPPORT"
    assert feature.supported is supported


def test_a_glslc_that_fails_for_another_reason_supports_nothing(tmp_path: Path) -> None:
    body = "echo 'glslc: error: libfoo.so: cannot open shared object file' >&2; exit 1"
    place = make_root(tmp_path, {"glslc": body})
    with pytest.raises(EnvironmentFault, match="would call GL_EXT_bfloat16 supported"):
        try_features(place.glslc, make_ggml(tmp_path, TEST_CALL))


def test_a_tree_whose_feature_tests_are_not_found(tmp_path: Path) -> None:
    place = make_root(tmp_path, {"glslc": "exit 0"})
    with pytest.raises(InvalidMeasurement, match="no feature test"):
        try_features(place.glslc, make_ggml(tmp_path, "# none\n"))


def make_ggml(tmp_path: Path, cmake: str) -> Path:
    backend = tmp_path / "ggml" / BACKEND
    backend.mkdir(parents=True)
    (backend / "CMakeLists.txt").write_text(cmake)
    return tmp_path / "ggml"


# reads a line a pipeline; the second word of the spec decides how it ends
DRIVER = """
while read -r line; do
    case $line in
    *1=6*) echo '{"error": "the compiler was ended by signal 11"}' ;;
    *1=7*) echo "Segmentation fault" >&2; exit 139 ;;
    *) echo '%s' ;;
    esac
done
"""


def test_a_crashed_compiler_names_its_variant_and_goes_on(tmp_path: Path, lab: Lab) -> None:
    place = make_root(tmp_path, {})
    answer = {"device": "d", "version": "v", "statistics": dict.fromkeys(NAMES.values(), 3)}
    program = tmp_path / "driver"
    write_program(program, DRIVER % json.dumps(answer))
    compiler = make_compiler(place, program)
    shader = Shader("0" * 64, {0: 32, 1: 1, 2: 1})
    git = Git(lab.repository)
    git.create()
    requests = [Request(compiler, mat_vec(rows=rows), shader) for rows in (2, 6, 4, 7, 8)]
    with open_workshop(lab, git, jobs=1) as shop:
        found = ask_compilers(shop, requests)
        kept = shop.look_up(each.key for each in requests)
    errors = [found[each.key].error for each in requests]
    assert [bool(error) for error in errors] == [False, True, False, True, False]
    assert "signal 11" in errors[1]
    assert "Segmentation fault" in errors[3]
    assert len(kept) == 3


# as RADV: says what LDS instructions there are where it is asked for the code
ASKED = """
while read -r line; do
    echo "$line" >>"$0.log"
    case $line in *"--isa	1"*) lds=', "lds": {"ds_load_b32": 4}';; *) lds=;; esac
    echo '%s'"$lds}"
done
"""


def test_only_what_is_compared_is_asked_for_its_code(tmp_path: Path, shop: Workshop) -> None:
    answer = {"device": "d", "version": "v", "statistics": dict.fromkeys(NAMES.values(), 3)}
    program = tmp_path / "driver"
    write_program(program, ASKED % json.dumps(answer).removesuffix("}"))
    compiler = make_compiler(make_root(tmp_path, {}), program)
    one, other = mat_vec(rows=1), mat_vec(rows=2)
    shader = Shader("0" * 64, {0: 32, 1: 4, 2: 1})

    def ask(*asked: list[Variant]) -> list[object]:
        session = Session(Bench(shop, compiler, "glslc"), [compiler], shaders={"s": shader})
        session.ask(*asked)
        found = [session.find(compiler, each) for each in (one, other)]
        return [each and (each.vgprs, each.loads) for each in found]

    def count() -> int:
        return len((tmp_path / "driver.log").read_text().splitlines())

    with_code, without = (3, {"b32": 4}), (3, {})
    assert ask([one], [one, other]) == [with_code, without]
    assert count() == 2
    assert ask([], [one, other]) == [with_code, without]  # what is known is not asked again
    assert count() == 2
    assert ask([other]) == [None, with_code]
    assert count() == 3
    assert ask([], [one, other]) == [with_code, with_code]
    assert count() == 3


def test_the_recording_glslc(tmp_path: Path) -> None:
    """The real program, built by this machine's compiler."""
    source = Path("validate/isa/recording_glslc.c").resolve()
    program = tmp_path / "glslc"
    subprocess.run(["cc", "-std=gnu11", "-o", program, source], check=True)
    out = tmp_path / "matmul_q4_k_f16_cm1.spv"
    words = ["a.comp", "-o", str(out), "-MD", "-MF", str(tmp_path / "a.d"), "-DX=1 2"]
    subprocess.run([program, *words], check=True)
    subprocess.run([program, *words], check=True)
    lines = (tmp_path / "glslc.log").read_bytes().splitlines()
    assert [line.rstrip(b"\0").split(b"\0") for line in lines] == [
        [word.encode() for word in words]
    ] * 2
    assert b"matmul_q4_k_f16_cm1\0" in out.read_bytes()
    assert out.stat().st_size % 4 == 0
    assert read_defaults(out.read_bytes()) == {}
