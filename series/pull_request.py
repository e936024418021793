"""What upstream says about pull requests: looked up, never written. Source: GitHub's REST API,
https://docs.github.com/en/rest/pulls/pulls#get-a-pull-request.

Only GET leaves this module. A lookup never raises: where the API cannot be asked the answer is why
it was not, and what was known before stays usable. `GITHUB_TOKEN` raises the rate limit; it is sent
as a header and is in no file, message or error.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import requests

from series.decisions import write_file
from series.github import REPOSITORY, TIME_LIMITS, Bearer, name_api
from series.model import Landed
from upstream.lab import Lab

TRAILER = "Upstream-PR"
FRESH_SECONDS = 900.0  # an answer this young is not asked for again
MOST_BYTES = 4_000_000
MOST_HOPS = 3
REDIRECTS = (301, 302, 307, 308)
_NAMED = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)?#(?P<number>\d{1,9})", re.ASCII
)
_ADDRESS = re.compile(r"https://github\.com/(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)/pull/(?P<number>\d{1,9})/?",
                      re.ASCII)  # fmt: skip
_TRAILER = re.compile(r"^([A-Za-z][A-Za-z0-9-]*):[ \t]*(.+)$", re.M)


@dataclass(frozen=True)
class Reference:
    """A pull request by repository (owner/name) and number."""

    repository: str
    number: int

    def __str__(self) -> str:
        return f"{self.repository}#{self.number}"


@dataclass(frozen=True)
class PullRequest:
    """What upstream said: `state` is open, closed or merged; `checked` when, seconds since 1970.
    `note`: why it was not asked again ("" for a fresh answer)."""

    reference: str
    state: str
    title: str
    merge_commit: str
    merged_at: str
    checked: float
    note: str = ""

    def describe(self) -> str:
        """One line for a report."""
        where = f" as {self.merge_commit[:12]}" if self.merge_commit else ""
        day = f" on {self.merged_at[:10]}" if self.merged_at else ""
        note = f" (known since {_day(self.checked)}; {self.note})" if self.note else ""
        return f"{self.reference} {self.state}{where}{day}: {self.title}{note}"


@dataclass(frozen=True)
class NotChecked:
    """A reference about which nothing is known, and why."""

    reference: str
    reason: str

    def describe(self) -> str:
        """One line for a report."""
        return f"{self.reference} not checked: {self.reason}"


Answer = PullRequest | NotChecked


def find_references(message: str) -> tuple[str, ...]:
    """The values of the `Upstream-PR:` trailers of a commit message, each once, in order."""
    last = message.strip("\n").rsplit("\n\n", 1)[-1]
    found = (value.strip() for key, value in _TRAILER.findall(last) if _is_trailer(key))
    return tuple(dict.fromkeys(found))


def parse_reference(text: str) -> Reference | None:
    """Read owner/name#N, #N (of upstream) or a pull request's address; None for anything else."""
    found = _NAMED.fullmatch(text.strip()) or _ADDRESS.fullmatch(text.strip())
    if found is None:
        return None
    return Reference(found["repo"] or REPOSITORY, int(found["number"]))


def list_references(message: str, landed: Landed | None) -> tuple[str, ...]:
    """All that a patch's mail and its record name."""
    recorded = (landed.reference,) if landed is not None else ()
    return tuple(dict.fromkeys((*find_references(message), *recorded)))


class PullRequests:
    """Lookups of one command. After one failure of the API the others are answered from memory:
    who is offline waits for one time limit, not for one a patch."""

    def __init__(self, lab: Lab, api: str = "", token: str | None = None) -> None:
        self.api = name_api(api)
        self._folder = lab.root / "pull-requests"
        self._auth = Bearer(token)
        self._failure = ""

    def look_up(self, text: str) -> Answer:
        """What upstream says about a reference. Never raises."""
        reference = parse_reference(text)
        if reference is None:
            return NotChecked(text, "names no pull request (owner/name#N or its address)")
        path = self._path(reference)
        etag, known = _read_memory(path)
        if known is not None and 0 <= time.time() - known.checked < FRESH_SECONDS:
            return known
        if not self._failure:
            answer = self._ask(reference, etag if known else "", known)
            if isinstance(answer, PullRequest):
                return answer
            reason = answer.reason
        else:
            reason = self._failure
        return replace(known, note=f"not checked: {reason}") if known else _not(reference, reason)

    def _path(self, reference: Reference) -> Path:
        name = hashlib.sha256(f"{self.api} {reference}".encode()).hexdigest()[:16]
        return self._folder / f"{reference.number}-{name}.json"

    def _ask(self, reference: Reference, etag: str, known: PullRequest | None) -> Answer:
        url = f"{self.api}/repos/{reference.repository}/pulls/{reference.number}"
        try:
            with requests.Session() as session:
                session.auth = self._auth  # without one, requests would send what .netrc holds
                status, headers, body = _get(session, url, etag)
            found = self._read(reference, status, headers, body, known)
        except _Refused as refused:
            if refused.for_all:
                self._failure = str(refused)
            return _not(reference, str(refused))
        except (requests.RequestException, OSError, ValueError) as error:
            # The error's own words are left out: they may quote a header or an address.
            self._failure = f"offline: {_host(url)} does not answer ({type(error).__name__})"
            return _not(reference, self._failure)
        _keep(self._path(reference), headers.get("ETag", etag), found)
        return found

    def _read(
        self,
        reference: Reference,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        known: PullRequest | None,
    ) -> PullRequest:
        if status == 304 and known is not None:
            return replace(known, checked=time.time(), note="")
        if status in (403, 429):
            raise _Refused(_say_limit(status, headers, bool(self._auth.token)), for_all=True)
        if status == 401:
            raise _Refused("the API refuses the token in GITHUB_TOKEN (401)", for_all=True)
        if status == 404:
            raise _Refused("there is no such pull request (404)")
        if status != 200:
            raise _Refused(f"the API answers {status}", for_all=status >= 500)
        return _parse(reference, body)


class _Refused(Exception):
    """An answer that says nothing about the pull request; `for_all`: about no other one either."""

    def __init__(self, reason: str, *, for_all: bool = False) -> None:
        super().__init__(reason)
        self.for_all = for_all


def _get(session: requests.Session, url: str, etag: str) -> tuple[int, Mapping[str, str], bytes]:
    """One GET; redirects are followed on the same host only (a renamed repository has some)."""
    headers = {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "llama-series-lab",
    }
    headers |= {"If-None-Match": etag} if etag else {}
    for _ in range(MOST_HOPS + 1):
        with session.get(
            url, headers=headers, timeout=TIME_LIMITS, allow_redirects=False, stream=True
        ) as response:
            if response.status_code not in REDIRECTS:
                return response.status_code, response.headers, _read_body(response)
            target = urljoin(url, response.headers.get("Location", ""))
        if urlsplit(target)[:2] != urlsplit(url)[:2]:
            raise _Refused(f"the API redirects to another host, {_host(target)}: refused")
        url = target
    raise _Refused(f"the API redirects more than {MOST_HOPS} times")


def _read_body(response: requests.Response) -> bytes:
    body = b""
    for piece in response.iter_content(1 << 16):
        body += piece
        if len(body) > MOST_BYTES:
            raise _Refused("the API's answer is too long to be a pull request")
    return body


def _parse(reference: Reference, body: bytes) -> PullRequest:
    try:
        table = json.loads(body)
        if table["number"] != reference.number or not isinstance(table["title"], str):
            raise ValueError
        merged = bool(table["merged_at"])
        return PullRequest(
            reference=str(reference),
            state="merged" if merged else _state(table["state"]),
            title=" ".join(table["title"].split()),
            # before the merge it is the id of a trial merge
            merge_commit=str(table["merge_commit_sha"] or "") if merged else "",
            merged_at=str(table["merged_at"] or ""),
            checked=time.time(),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _Refused("the API's answer is no pull request (a proxy's page?)") from None


def _state(value: object) -> str:
    if value not in ("open", "closed"):
        raise ValueError
    return str(value)


def _say_limit(status: int, headers: Mapping[str, str], with_token: bool) -> str:
    """Why the API refuses, and from when on it answers again."""
    after, reset = headers.get("Retry-After", ""), headers.get("X-RateLimit-Reset", "")
    spent = headers.get("X-RateLimit-Remaining") == "0"
    if not (spent or after or status == 429):
        return f"the API refuses ({status})"
    until = ""
    if after.isdecimal() and len(after) < 9:
        until = f", free again in {after} s"
    elif reset.isdecimal() and len(reset) < 12:
        until = f", free again at {time.strftime('%H:%M:%S UTC', time.gmtime(int(reset)))}"
    more = "" if with_token else "; a token in GITHUB_TOKEN raises it"
    return f"rate limit of the API reached{until}{more}"


def _keep(path: Path, etag: str, found: PullRequest) -> None:
    document = {"etag": etag, "pull": asdict(found)}
    try:
        write_file(path, json.dumps(document, indent=1).encode())
    except OSError:
        return  # without a memory the next command asks again


def _read_memory(path: Path) -> tuple[str, PullRequest | None]:
    try:
        document = json.loads(path.read_bytes())
        found = PullRequest(**document["pull"])
        if not isinstance(found.checked, float) or not isinstance(found.title, str):
            return "", None
        return str(document["etag"]), found
    except (OSError, ValueError, KeyError, TypeError):
        return "", None


def _not(reference: Reference, reason: str) -> NotChecked:
    return NotChecked(str(reference), reason)


def _is_trailer(key: str) -> bool:
    return key.lower() == TRAILER.lower()


def _host(url: str) -> str:
    return urlsplit(url).hostname or "nowhere"


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
