"""The Vulkan lane on the real series and on planted faults, on lavapipe: real glslc, real driver.

Takes a toolchain root: the lab's, or one made here as root with debootstrap. The first build takes
about 20 minutes of CPU time, most of it glslc; later ones find their shaders again, and lavapipe
its compiled pipelines.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from real_stack import SERIES, provide_stack

from series.decisions import Decisions
from series.manifest import load_series
from series.model import Stack, Step
from series.topic_stack import Rebuilder, TopicStack
from upstream import process
from upstream.git import Git, Person, Stage
from upstream.lab import Lab, open_lab
from validate.build import BASE, Builder
from validate.models import provide_model
from validate.recipe import llama_recipe
from validate.room import Room
from validate.shader_root import SUITES, make_root
from validate.source_tree import open_check_tree
from validate.teeth import OwnCheck, Tree, check_teeth, find_script
from validate.toolchain import find_toolchain
from validate.verdict import CheckResult, Verdict
from validate.vulkan.device import software_launch, with_layers
from validate.vulkan.integer_dot import REPORTED, SHIM, build_shim
from validate.vulkan.kit import Kit
from validate.vulkan.lane import Lane, find_kit, open_lane
from validate.vulkan.layers import parse_messages, require_layer
from validate.vulkan.plan import plan_vulkan

pytestmark = pytest.mark.e2e
PAD, PLANTED, OTHER = "vulkan-mul-mm-pad.patch", "wrong-soft-max", "another-readme"
PLANTED_DOT = "wrong-integer-dot"
# A patch and which cases of its own check fail without it.
TILE = ("vulkan-moe-tile-by-rows.patch", r"n_mats=8,n_used=2: matmul_id_")
NORMS = ("vulkan-rms-norm-rows.patch", r"RMS_NORM.*\[(64|128|132|256),.*: rms_norm_")
DELTA = ("vulkan-gated-delta-net-blocks.patch", r"GATED_DELTA_NET .*: no case or no dispatch seen")
WRITER = Person("Ada", "ada@example.org", "1700000000 +0000")
SHADER = "ggml/src/ggml-vulkan/vulkan-shaders/soft_max.comp"
RIGHT, WRONG = b"FLOAT_TYPE rcpdivisor = 1.0/sum;", b"FLOAT_TYPE rcpdivisor = 1.01/sum;"
DOT_SHADER = "ggml/src/ggml-vulkan/vulkan-shaders/mul_mat_vecq_funcs.glsl"
DOT_RIGHT, DOT_WRONG = (
    b"float(q_sum) * dsb.x - (%d / sum_divisor) * dsb.y" % offset for offset in (8, 7)
)
LIMIT = 8
# Says whether the packed product of signed bytes is accelerated, as the backend asks it: through
# the loader's own function.
ASKING_PROGRAM = """
#include <stdio.h>
#include <vulkan/vulkan.h>
int main(void) {
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, 0, 0, 0, 0, 0, VK_API_VERSION_1_3};
    VkInstanceCreateInfo wanted = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, 0, 0, &app};
    VkInstance instance;
    PFN_vkVoidFunction made = vkGetInstanceProcAddr(0, "vkCreateInstance");
    if (!made || ((PFN_vkCreateInstance) made)(&wanted, 0, &instance)) return 1;
    PFN_vkVoidFunction all = vkGetInstanceProcAddr(instance, "vkEnumeratePhysicalDevices");
    uint32_t one = 1;
    VkPhysicalDevice gpu;
    ((PFN_vkEnumeratePhysicalDevices) all)(instance, &one, &gpu);
    VkPhysicalDeviceShaderIntegerDotProductProperties dot =
        {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    VkPhysicalDeviceProperties2 said = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &dot};
    PFN_vkVoidFunction ask = vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceProperties2");
    ((PFN_vkGetPhysicalDeviceProperties2) ask)(gpu, &said);
    printf("%u %u", dot.integerDotProduct4x8BitPackedSignedAccelerated,
                    dot.integerDotProduct4x8BitPackedUnsignedAccelerated);
    return 0;
}
"""
# Breaks two rules of Vulkan: a buffer of no size and no use.
BAD_PROGRAM = """
#include <vulkan/vulkan.h>
int main(void) {
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, 0, 0, 0, 0, 0, VK_API_VERSION_1_2};
    VkInstanceCreateInfo wanted = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, 0, 0, &app};
    VkInstance instance;
    if (vkCreateInstance(&wanted, 0, &instance)) return 1;
    uint32_t one = 1;
    VkPhysicalDevice gpu;
    vkEnumeratePhysicalDevices(instance, &one, &gpu);
    float rank = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, 0, 0, 0, 1, &rank};
    VkDeviceCreateInfo made = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, 0, 0, 1, &queue};
    VkDevice device;
    if (vkCreateDevice(gpu, &made, 0, &device)) return 2;
    VkBufferCreateInfo empty = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    VkBuffer buffer;
    vkCreateBuffer(device, &empty, 0, &buffer);
    return 0;
}
"""


@pytest.fixture(scope="module")
def kit() -> Kit:
    lab = open_lab()
    if os.geteuid() == 0 and shutil.which("debootstrap"):
        for suite in SUITES:
            make_root(lab, suite)
    found = find_kit(lab)
    if found is None:
        pytest.skip("no toolchain root, and making one takes root and debootstrap")
    return found


@dataclass(frozen=True)
class Bench:
    lane: Lane
    room: Room

    def check(self, step: str, wanted: str = "") -> dict[str, CheckResult]:
        plan = plan_vulkan(self.lane, self.room, "bit-exact", step)
        return {name: check() for name, check in plan if name.startswith(wanted)}


def edit(lab: Lab, parent: Step, name: str, path: str, text: bytes) -> Step:
    git = Git(lab.repository)
    tree = git.edit_tree(parent.tree, [Stage("100644", git.write_blob(text), 0, path)], lab.scratch)
    return Step("planted", name, git.write_commit(tree, (parent.commit,), WRITER, "x"), tree)


def rebuild_alone(lab: Lab, patch: str) -> Stack:
    """The topic of a patch on the base."""
    git, series = Git(lab.repository), load_series(SERIES)
    rebuilder = Rebuilder(git, series, provide_stack(lab), Decisions({}, {}, {}, {}), lab.scratch)
    alone = rebuilder.rebuild(next(topic for topic in series.topics if patch in topic.patches))
    assert isinstance(alone, TopicStack)
    return alone.stack


def open_stack(lab: Lab) -> Stack:
    """The topic of the pad alone, two faults on top of it, and a step that touches no Vulkan."""
    git, alone = Git(lab.repository), rebuild_alone(lab, PAD)
    pad = alone.steps[-1]
    text = git.read_blob(f"{pad.tree}:{SHADER}") or b""
    assert text.count(RIGHT) == 1
    fault = edit(lab, pad, PLANTED, SHADER, text.replace(RIGHT, WRONG))
    text = git.read_blob(f"{fault.tree}:{DOT_SHADER}") or b""
    assert text.count(DOT_RIGHT) == 1
    dot = edit(lab, fault, PLANTED_DOT, DOT_SHADER, text.replace(DOT_RIGHT, DOT_WRONG))
    other = edit(lab, dot, OTHER, "README.md", b"another\n")
    return replace(alone, steps=(*alone.steps, fault, dot, other))


def open_bench(lab: Lab, stack: Stack, kit: Kit) -> Bench:
    recipe = llama_recipe(stack.version)
    builder = Builder(lab, Git(lab.repository), recipe, find_toolchain(), jobs=2)
    room = Room(lab, provide_model(lab))
    return Bench(open_lane(builder, stack, room, kit, limit=LIMIT), room)


@pytest.fixture(scope="module")
def bench(kit: Kit) -> Bench:
    lab = open_lab()
    return open_bench(lab, open_stack(lab), kit)


def test_the_pad_changes_no_bit_in_software(bench: Bench) -> None:
    found = bench.check(PAD)
    assert bench.lane.device is not None
    assert bench.lane.device.software
    assert {name.partition(" (")[2] for name in found} == {"software)"}
    assert {each.verdict for each in found.values()} == {Verdict.PASS}, found
    facts = found["vulkan ops (software)"].facts
    assert (facts["run"], len(facts["cases"])) == (LIMIT, LIMIT)
    assert facts["planned"] == facts["run"] + sum(facts["skipped"].values())
    assert found["vulkan results (software)"].detail == "bit-exact: same bytes"


def test_a_wrong_shader_fails(bench: Bench) -> None:
    (found,) = bench.check(PLANTED, "vulkan ops").values()
    assert found.verdict is Verdict.FAIL, found
    assert "SOFT_MAX" in found.detail
    assert found.facts["also in the parent"] == []


def test_a_wrong_integer_dot_shader_runs_and_fails(bench: Bench) -> None:
    """On lavapipe, which does not call its integer dot product accelerated."""
    checks = bench.check(PLANTED_DOT, "vulkan ops")
    assert list(checks) == [f"vulkan ops (software, {REPORTED})"]
    (found,) = checks.values()
    assert found.verdict is Verdict.FAIL, found
    assert "type_a=q4_0" in found.detail
    assert found.facts["bound"]["mul_mat_vec_q4_0_q8_1_f32"] > 0
    assert found.facts["also in the parent"] == []


def test_a_step_without_vulkan_files_is_not_built(bench: Bench) -> None:
    (found,) = bench.check(OTHER).values()
    assert found.verdict is Verdict.IDENTICAL


@pytest.mark.parametrize(("patch", "cases"), [TILE, NORMS, DELTA], ids=("tile", "norms", "delta"))
def test_the_dispatch_check_has_teeth(kit: Kit, patch: str, cases: str) -> None:
    """The patch's own check sees upstream's tile and threads without the patch, others with it."""
    lab = open_lab()
    bench, series = open_bench(lab, rebuild_alone(lab, patch), kit), load_series(SERIES)
    built = [bench.lane.builds[name] for name in (patch, BASE)]
    trees = [
        Tree(each.plan, each.binaries, bench.lane.find_programs(each.name))
        for each in built
        if each.binaries
    ]
    script = find_script(series.directory, series.claim(patch).check)
    own = OwnCheck(script, open_check_tree(lab, Git(lab.repository)))
    found = check_teeth(bench.room, own, *trees)
    assert found.verdict is Verdict.PASS, found
    failed = [row["case"] for row in found.facts["parent"]["detail"] if not row["passed"]]
    assert failed
    assert all(re.match(cases, case) for case in failed), failed


def build_program(kit: Kit, folder: Path, text: str) -> Path:
    source, program = folder / "program.c", folder / "program"
    source.write_text(text)
    entries = dict(entry.split("=", 1) for entry in kit.options)
    flags = (f"-I{entries['Vulkan_INCLUDE_DIR']}", "-Wl,--allow-shlib-undefined", "-o", program)
    process.run(("cc", source, *flags, entries["Vulkan_LIBRARY"]))
    return program


def test_the_library_changes_one_answer_of_the_real_driver(kit: Kit, tmp_path: Path) -> None:
    program, launch = build_program(kit, tmp_path, ASKING_PROGRAM), software_launch(kit)
    plain = {**os.environ, **launch.variables}
    library = os.fspath(build_shim(kit, find_toolchain().c))
    said = [
        process.run((*launch.start, program), env=env).text
        for env in (plain, plain | {SHIM: library})
    ]
    assert said == ["0 0", "1 0"]


def test_the_real_layer_finds_broken_rules(kit: Kit, tmp_path: Path) -> None:
    program, log = build_program(kit, tmp_path, BAD_PROGRAM), tmp_path / "log"
    launch = with_layers(software_launch(kit), kit)
    env = {**os.environ, **launch.variables, "VK_LAYER_LOG_FILENAME": os.fspath(log)}
    done = process.run((*launch.start, program), env=env)
    require_layer(done.stderr.decode())
    assert parse_messages(log.read_text()).keys() >= {"VUID-VkBufferCreateInfo-size-00912"}
