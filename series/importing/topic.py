"""From drafts to a topic at the end of the series: names, the manifest, the write."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import tomlkit
from tomlkit.items import AoT

from series.importing.model import Draft
from series.mail import write_mail
from series.model import Series, Stack, Topic
from series.write import Staged, append_tables
from upstream.errors import UsageError
from upstream.git import Git

LONGEST = 60


def name_patches(drafts: Sequence[Draft], prefix: str) -> dict[str, Draft]:
    """The drafts by the name of their patch file: from the old file name, else the subject.

    A leading number is left out, since the order stands in series.toml; where two names would be
    one, the later gets -2, -3.
    """
    named: dict[str, Draft] = {}
    for draft in drafts:
        stem = prefix + make_slug(draft.stem or draft.subject)
        number = 1
        name = f"{stem}.patch"
        while name in named:
            number += 1
            name = f"{stem}-{number}.patch"
        named[name] = draft
    return named


def make_slug(text: str) -> str:
    """Letters, digits, dots, dashes: a name that series.toml allows."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    folders, _, last = plain.rpartition("/")
    last = re.sub(r"^\d+[-_. ]+", "", last)
    joined = re.sub(r"[^a-z0-9._]+", "-", f"{folders}-{last}")
    return joined.strip("-._")[:LONGEST].rstrip("-._") or "patch"


def check_free(series: Series, topic: str, requires: Iterable[str], names: Iterable[str]) -> None:
    """Refuse a topic or patch that the series has, and required topics that it lacks."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", topic):
        raise UsageError(
            f"'{topic}' is no topic name",
            remedy="small letters, digits, dots, dashes: --topic NAME",
        )
    known = {each.name for each in series.topics}
    if topic in known:
        raise UsageError(
            f"{series.directory} has a topic '{topic}' already",
            remedy="name another with --topic NAME (nox -s status shows what is there)",
        )
    missing = [name for name in requires if name not in known]
    if missing:
        raise UsageError(
            f"{series.directory} has no topic '{missing[0]}' that --requires names",
            remedy=f"it has: {', '.join(sorted(known)) or '(none)'}",
        )
    taken = known_patches(series) & set(names)
    if taken:
        raise UsageError(
            f"{series.directory} knows patches of the same name: {', '.join(sorted(taken))}",
            remedy=f"add --prefix {topic}-, or leave them out: --only lists those to import",
        )


def known_patches(series: Series) -> set[str]:
    """Every name that a patch of the series has or had, and files that lie in its folder."""
    listed = {patch for _, patch in series.order()}
    listed |= {record.patch for record in series.landed}
    listed |= {record.patch for record in series.dropped}
    return listed | {path.name for path in (series.directory / "patches").glob("*.patch")}


def stage_topic(
    git: Git, series: Series, topic: Topic, stack: Stack, origins: Mapping[str, Draft], room: Path
) -> Staged:
    """The new files of the series directory: one mail a patch, and the manifest."""
    put = {}
    for step in stack.steps:
        try:
            put[f"patches/{step.patch}"] = write_mail(git, step.commit, Path(step.patch), room)
        except UsageError as error:
            raise UsageError(
                f"{origins[step.patch].origin}: {error.what}",
                remedy="reword its message there, then import again; or leave it out with --only",
            ) from error
    put["series.toml"] = extend_manifest(series, topic).encode()
    return Staged(put, ())


def extend_manifest(series: Series, topic: Topic) -> str:
    """`series.toml` with the topic at the end of the list; comments and layout stay."""
    path = series.directory / "series.toml"
    document = tomlkit.parse(path.read_text("utf-8")) if path.exists() else tomlkit.document()
    if "base" not in document:
        document.add("base", tomlkit.item(str(series.base)))
    if not isinstance(document.get("topic", tomlkit.aot()), AoT):
        raise UsageError(f"{path}: topics must be tables", remedy="write each as [[topic]]")
    table = tomlkit.table()
    table.update({"name": topic.name, "title": topic.title, "requires": list(topic.requires)})
    table.add("patches", tomlkit.item(list(topic.patches)).multiline(len(topic.patches) > 1))
    table.add(tomlkit.nl())  # what follows keeps its distance
    append_tables(document, "topic", [table])
    return tomlkit.dumps(document).rstrip("\n") + "\n"
