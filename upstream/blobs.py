"""Many blobs of a repository, read by one git process."""

from __future__ import annotations

from collections.abc import Sequence

from upstream.git import Git


def read_blobs(git: Git, names: Sequence[str]) -> list[bytes | None]:
    """The bytes of blobs (ids, or `tree:path`) in the order asked, None where there is none.

    Format: https://git-scm.com/docs/git-cat-file#_batch_output
    """
    # NUL ends the names: a path may hold a line end
    done = git.run("cat-file", "--batch", "-z", stdin="\0".join((*names, "")).encode())
    output, at = done.stdout, 0
    found: list[bytes | None] = []
    for name in names:
        missing = f"{name} missing\n".encode()
        if output.startswith(missing, at):
            found.append(None)
            at += len(missing)
            continue
        head = output.index(b"\n", at)
        size = int(output[at:head].rsplit(b" ", 1)[1])
        found.append(output[head + 1 : head + 1 + size])
        at = head + size + 2
    return found
