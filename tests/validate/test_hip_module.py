"""What a kernel's digest stands for, and which kernels are compiled together."""

from __future__ import annotations

import pytest

from validate.hip.module import LARGE, Unit, read_module, weigh

MODULE = """; ModuleID = 'a.cu'
source_filename = "a.cu"
target triple = "amdgcn-amd-amdhsa"

%struct.block = type { i16, %union.anon.7 }
%union.anon.7 = type { i32 }

@table = internal addrspace(4) constant [2 x i8] c"\\01\\02"
@lds = internal addrspace(3) global [32 x float] undef

; Function Attrs: convergent
define amdgpu_kernel void @one(ptr %0) #0 !dbg !9 {
  %2 = load %struct.block, ptr %0, !tbaa !3
  call void @helper(ptr @table) #2
  br label %3, !llvm.loop !5
}

define amdgpu_kernel void @two(ptr %0) #0 {
  store float 1.0, ptr addrspace(3) @lds
  ret void
}

define internal void @helper(ptr %0) #1 {
  call void @llvm.trap()
  ret void
}

declare void @llvm.trap() #3

attributes #0 = { convergent "amdgpu-flat-work-group-size"="1,256" }
attributes #1 = { alwaysinline }
attributes #2 = { nounwind }
attributes #3 = { cold }
!llvm.module.flags = !{!0}
!llvm.ident = !{!1}
!0 = !{i32 1, !"amdgpu_code_object_version", i32 400}
!1 = !{!"clang version 17"}
!3 = !{!4, !4, i64 0}
!4 = !{!"any pointer"}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.enable"}
!9 = !{!"here"}
"""


def units(text: str = MODULE) -> dict[str, Unit]:
    return {name: unit for unit in read_module(text).units for name in unit.kernels}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("call void @llvm.trap()", "ret void\n", {"one"}),  # in what it calls
        ("{ alwaysinline }", "{ inlinehint }", {"one"}),
        ("{ nounwind }", "{ convergent nounwind }", {"one"}),  # at the call
        ("{ cold }", "{ nounwind }", {"one"}),  # of what is only declared
        ("{ i32 }", "{ i64 }", {"one"}),  # in the type of a type
        ('c"\\01\\02"', 'c"\\01\\03"', {"one"}),  # in a table
        ('!"any pointer"', '!"int"', {"one"}),  # in metadata of metadata
        ("unroll.enable", "unroll.disable", {"one"}),
        ("[32 x float]", "[64 x float]", {"two"}),
        ("store float 1.0", "store float 2.0", {"two"}),
        ('"1,256"', '"1,128"', {"one", "two"}),
        ("i32 400", "i32 500", {"one", "two"}),  # a flag of the module
        ("amdgcn-amd-amdhsa", "amdgcn-amd-amdpal", {"one", "two"}),
        ("%struct.block =", "%0 = type { i8 }\n%struct.block =", {"one", "two"}),  # has no name
    ],
)
def test_a_change_in_anything_that_a_kernel_is_made_of(
    old: str, new: str, changed: set[str]
) -> None:
    assert MODULE.count(old) == 1 or old in ("{ i32 }", '!"any pointer"')
    before, after = units(), units(MODULE.replace(old, new))
    assert {name for name in before if before[name].key != after[name].key} == changed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'a.cu'", "'b.cu'"),
        ('source_filename = "a.cu"', 'source_filename = "b.cu"'),
        ("clang version 17", "another clang"),
        ("#0", "#9"),
        ("!6", "!16"),
        ("!5", "!15"),
        ("anon.7", "anon.8"),
    ],
)
def test_numbers_and_names_of_files_are_no_change(old: str, new: str) -> None:
    assert units(MODULE.replace(old, new)) == units()


CIRCLE = """!2 = !{!12, !"b"}
!12 = !{!2, !"a"}
!3 = """


@pytest.mark.parametrize("first", ["!2", "!12"])
def test_a_change_in_a_circle_is_seen_from_everywhere_in_it(first: str) -> None:
    text = MODULE.replace("!3 = ", CIRCLE).replace("!dbg !9", f"!dbg {first}")
    text = text.replace("store float 1.0, ptr addrspace(3) @lds", "ret void, !dbg !2")
    before, after = units(text), units(text.replace('!"a"', '!"c"'))
    assert before["one"].key != after["one"].key
    assert before["two"].key != after["two"].key


def test_another_kernel_is_no_change() -> None:
    more = MODULE.replace(
        "define internal", "define amdgpu_kernel void @new() #0 {\n  ret void\n}\ndefine internal"
    )
    assert units(more).items() > units().items()


CALLS = "  call void @helper(ptr null)\n  ret void\n"
BOTH = MODULE.replace("  store float 1.0, ptr addrspace(3) @lds\n  ret void\n", CALLS)
LONG = "  call void @llvm.trap()\n" * (LARGE + 1)


def sharing(attributes: str, body: str = "  call void @llvm.trap()\n") -> list[tuple[str, ...]]:
    """The units where both kernels call the helper."""
    text = BOTH.replace("{ alwaysinline }", f"{{ {attributes} }}")
    text = text.replace("  call void @llvm.trap()\n", body)
    return sorted(unit.kernels for unit in read_module(text).units)


def test_kernels_that_share_what_may_stay_a_function_are_one_unit() -> None:
    assert sharing("alwaysinline", LONG) == [("one",), ("two",)]
    assert sharing("convergent") == [("one",), ("two",)]  # small: it is inlined anyway
    assert sharing("convergent", LONG) == [("one", "two")]
    assert sharing("noinline") == [("one", "two")]


def test_kernels_that_share_a_variable_are_one_unit() -> None:
    writes = "  store i32 1, ptr @lds\n"
    assert sharing("alwaysinline", writes) == [("one", "two")]
    reads = "  load i8, ptr @table\n"
    assert sharing("alwaysinline", reads) == [("one",), ("two",)]
    text = BOTH.replace("internal addrspace(3) global", "external addrspace(3) global")
    text = text.replace("  call void @llvm.trap()\n", writes)
    assert len(read_module(text).units) == 2  # declared only: its size comes with the launch


def test_lds_of_a_function_that_stays_one_concerns_all_kernels() -> None:
    third = "define amdgpu_kernel void @three() #0 {\n  ret void\n}\ndefine internal"
    text = MODULE.replace("{ alwaysinline }", "{ noinline }").replace("define internal", third)
    assert sorted(map(len, (unit.kernels for unit in read_module(text).units))) == [1, 1, 1]
    text = text.replace("  call void @llvm.trap()\n", "  store float 1.0, ptr @lds\n")
    assert [len(unit.kernels) for unit in read_module(text).units] == [3]


def test_a_kernel_that_something_refers_to() -> None:
    used = "@llvm.used = appending global [1 x ptr] [ptr @two]\n@table"
    (unit,) = read_module(MODULE.replace("@table = ", used + " = ")).units
    assert unit.kernels == ("one", "two")


def test_the_rest_of_the_module_is_kept() -> None:
    kept = read_module(MODULE).keep({"two"})
    assert "@one" not in kept
    assert read_module(kept).units == [
        unit for unit in units().values() if unit.kernels == ("two",)
    ]
    for text in ("@two", "@helper", "@table", "target triple", "!llvm.module.flags", "#3"):
        assert text in kept


def test_heaps() -> None:
    found = [Unit(str(lines), (), lines) for lines in (1, 5, 2, 3, 9)]
    assert [[unit.lines for unit in heap] for heap in weigh(found, 5)] == [[9], [5], [3, 2], [1]]
    assert list(weigh([], 5)) == []
