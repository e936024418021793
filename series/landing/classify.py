"""How a patch stands against one upstream version, alone, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from series.decisions import Acknowledged
from series.landing.alone import Alone
from series.landing.ground import Below, Ground
from series.landing.hunks import Hunk, contains, judge_hunk, weighty
from series.landing.model import Excerpt, Fate, HunkFate, Standing, State
from series.loss import Change, Loss, find_loss, parse_change
from series.merge import Conflict

SHOWN_LINES = 40
SHOWN_REGIONS = 8
LEAST_COPY = 4  # lines that a copy must share with a hunk
MOST_LINES = 0.8  # of a hunk's lines: a file that holds them is where they moved
Accepted = Mapping[tuple[str, str], Acknowledged]


def judge_hunks(patch: Alone, ground: Ground) -> tuple[HunkFate, ...]:
    """What became of each hunk of a patch on the plain tree of a version."""
    courses = ground.courses(patch.before, patch.paths)
    return tuple(judge_hunk(hunk, courses[hunk.path]) for hunk in patch.hunks)


def classify_patch(patch: Alone, ground: Ground, accepted: Accepted | None = None) -> Standing:
    """One cell of the drift map. `accepted`: acknowledged losses by patch and digest."""
    return classify_patches([patch], ground, accepted)[0]


def classify_patches(
    patches: Sequence[Alone], ground: Ground, accepted: Accepted | None = None
) -> list[Standing]:
    """The column of one version: every patch on it, each alone."""
    below = [ground.below(patch) for patch in patches]
    merged = [ground.merge(p, b.tree) for p, b in zip(patches, below, strict=True)]
    pairs = [(b.tree, m) for b, m in zip(below, merged, strict=True) if isinstance(m, str)]
    diffs = iter(ground.git.diff_trees(pairs) if pairs else [])
    _gather_courses(patches, ground)
    found = []
    for patch, under, result in zip(patches, below, merged, strict=True):
        if isinstance(result, Conflict):
            found.append(_judge_conflict(patch, ground, under, result))
        else:
            diff = next(diffs)
            if result == under.tree:  # not "no hunks": a change of mode or of bytes has none
                found.append(_say_landed(patch, ground))
                continue
            after = parse_change(diff)
            found.append(_judge_merge(patch, ground, under, after, accepted or {}))
    return found


def _gather_courses(patches: Sequence[Alone], ground: Ground) -> None:
    """Ask for the ways of all paths of a base at once: one process instead of one a patch."""
    paths: dict[str, list[str]] = {}
    for patch in patches:
        paths.setdefault(patch.before, []).extend(patch.paths)
    for before, wanted in paths.items():
        ground.courses(before, wanted)


def mark_superseded(standing: Standing, passes: bool) -> Standing:
    """The cell of a patch whose drop-check ran on the plain tree; it only explains a conflict."""
    if not passes or standing.state not in (State.CONFLICT, State.LOSS, State.PARTLY):
        return standing
    if standing.applies:
        return standing
    detail = "its drop-check passes on the plain tree"
    return replace(standing, state=State.SUPERSEDED, detail=_join(detail, standing.detail))


# -- clean merges ---------------------------------------------------------------------------------


def _say_landed(patch: Alone, ground: Ground) -> Standing:
    """The merge changes nothing: every hunk is upstream."""
    fates = judge_hunks(patch, ground)
    exact = tuple(replace(fate, fate=Fate.EXACT, share=1.0) for fate in fates)
    return Standing(patch.patch, ground.version, State.LANDED, exact, _say_base(patch))


def _judge_merge(
    patch: Alone, ground: Ground, below: Below, after: Change, accepted: Accepted
) -> Standing:
    fates = judge_hunks(patch, ground)
    loss = find_loss(patch.change, after)
    state = State.CLEAN if after.starts == patch.change.starts else State.OFFSET
    state = state if after.paths == patch.change.paths else State.MOVED
    detail = _say_move(patch, after) if state is State.MOVED else ""
    if loss and (patch.patch, loss.digest) not in accepted:
        state, detail = _judge_loss(patch, fates, loss)
    else:
        fates = tuple(_forget_modified(fate) for fate in fates)
    warnings = tuple(_find_dangers(patch, ground, fates))
    detail = _join(detail, _say_base(patch), _say_missing(below))
    return Standing(patch.patch, ground.version, state, fates, detail, warnings=warnings)


def _forget_modified(fate: HunkFate) -> HunkFate:
    """A hunk that merges with all its lines is not upstream, however alike its surroundings."""
    return replace(fate, fate=Fate.LEFT)


def _judge_loss(patch: Alone, fates: Sequence[HunkFate], loss: Loss) -> tuple[State, str]:
    """Lines that vanish because whole hunks are upstream mean a part landed; others are lost."""
    exact = [hunk for hunk, fate in zip(patch.hunks, fates, strict=True) if fate.fate is Fate.EXACT]
    explained = Counter(line for hunk in exact for line in hunk.added)
    torn = Counter(loss.vanished) - explained
    if exact and not torn and not loss.newly_removed:
        return State.PARTLY, _say_hunks(fates)
    lines = Loss(tuple(torn.elements()), loss.newly_removed).describe()
    return State.LOSS, "git merges it, but " + "; ".join(" ".join(x.split()) for x in lines[:3])


def _find_dangers(patch: Alone, ground: Ground, fates: Sequence[HunkFate]) -> list[str]:
    """What a clean merge may hide: lines twice, a second copy of the patched file."""
    found = [
        f"{fate.path}: the lines of hunk {fate.number} stand at line {fate.elsewhere} too, "
        "added upstream: they may be there twice"
        for fate in fates
        if fate.elsewhere
    ]
    for hunk in patch.hunks:
        for copy in ground.find_copies(patch.before, hunk.path, wide=False):
            if copy not in {fate.path for fate in fates} and _holds(ground, copy, hunk):
                found.append(f"{copy} holds the lines of {hunk.path} too and stays unpatched")
    return list(dict.fromkeys(found))


def _holds(ground: Ground, path: str, hunk: Hunk) -> bool:
    return len(hunk.source) >= LEAST_COPY and contains(ground.read(path), hunk.source)


# -- conflicts ------------------------------------------------------------------------------------


def _judge_conflict(patch: Alone, ground: Ground, below: Below, conflict: Conflict) -> Standing:
    fates = judge_hunks(patch, ground)
    state = _judge_fates(fates)
    if state is State.CONFLICT:
        detail = _join(*_say_conflict(patch, ground, conflict))
    else:
        detail = _say_hunks(fates)
    detail = _join(detail, _say_base(patch), _say_missing(below))
    return Standing(
        patch.patch, ground.version, state, fates, detail,
        merges=False, key=conflict.key, excerpts=_excerpts(conflict),
    )  # fmt: skip


def _judge_fates(fates: Sequence[HunkFate]) -> State:
    kinds = Counter(fate.fate for fate in fates)
    if fates and kinds[Fate.EXACT] == len(fates):
        return State.LANDED
    if fates and not kinds[Fate.LEFT]:
        return State.MODIFIED
    return State.PARTLY if kinds[Fate.EXACT] else State.CONFLICT


def _say_conflict(patch: Alone, ground: Ground, conflict: Conflict) -> list[str]:
    """Where it conflicts, and where upstream moved the lines to."""
    said = [f"conflict in {', '.join(conflict.paths)}"]
    ground.read_all([hunk.path for hunk in patch.hunks])  # at once: they are looked into below
    for hunk in patch.hunks:
        home = _find_new_home(patch, ground, hunk)
        said += [f"lines of {hunk.path} stand in the new {home} now"] if home else []
    return list(dict.fromkeys(said))


def _find_new_home(patch: Alone, ground: Ground, hunk: Hunk) -> str:
    """The new file that holds nearly all lines of a hunk, where its old file lost them."""
    wanted = weighty(hunk.source)
    kept = set(ground.read(hunk.path))
    if len(wanted) < LEAST_COPY or sum(line in kept for line in wanted) > len(wanted) / 2:
        return ""
    copies = ground.find_copies(patch.before, hunk.path, wide=True)
    for copy, lines in zip(copies, ground.read_all(copies), strict=True):
        there = set(lines)
        if sum(line in there for line in wanted) >= MOST_LINES * len(wanted):
            return copy
    return ""


def _excerpts(conflict: Conflict) -> tuple[Excerpt, ...]:
    return tuple(
        Excerpt(region.path, *(_cut(text) for text in (region.ours, region.base, region.theirs)))
        for region in conflict.regions[:SHOWN_REGIONS]
    )


def _cut(text: str) -> tuple[str, ...]:
    lines = text.split("\n") if text else []
    more = [f"({len(lines) - SHOWN_LINES} more lines)"] if len(lines) > SHOWN_LINES else []
    return (*lines[:SHOWN_LINES], *more)


# -- words ----------------------------------------------------------------------------------------


def _say_hunks(fates: Sequence[HunkFate]) -> str:
    kinds = Counter(fate.fate for fate in fates)
    counted = [f"{kinds[fate]} {fate.value}" for fate in (Fate.EXACT, Fate.MODIFIED, Fate.LEFT)]
    left = [f"{f.path} hunk {f.number}" for f in fates if f.fate is Fate.LEFT]
    tail = f"; left: {', '.join(left)}" if left else ""
    return f"of {len(fates)} hunks upstream has {', '.join(counted)}{tail}"


def _say_move(patch: Alone, after: Change) -> str:
    pairs = zip(patch.change.paths, after.paths, strict=False)
    return ", ".join(f"{old} is now {new}" for old, new in pairs if old != new)


def _say_base(patch: Alone) -> str:
    return "" if patch.apart else "needs patches of other topics: name them in requires"


def _say_missing(below: Below) -> str:
    return f"without {', '.join(below.missing)}, which conflicts" if below.missing else ""


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
