"""Search upstream's pull requests, read-only. Source: GitHub's REST API,
https://docs.github.com/en/rest/search/search#search-issues-and-pull-requests.

Only GET leaves this module. `GITHUB_TOKEN` raises the rate limit; it is sent as a header, to https
or the loopback only, and is in no file, message or error.
"""

from __future__ import annotations

import json
import os
import re
import threading
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from upstream.errors import EnvironmentFault
from validate.policy import Search

REPOSITORY = "ggml-org/llama.cpp"
API = "https://api.github.com"
TIME_LIMITS = (4.0, 15.0)  # seconds to connect, seconds without a byte
SHOWN = 5
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TOKEN = re.compile(r"[\x21-\x7e]+")


class PullRequestSearch:
    """A `Lookup`: the same query is asked once; after one failure nothing is asked any more, so who
    is offline waits for one time limit."""

    def __init__(self, api: str = "", token: str | None = None) -> None:
        self._url = (api or os.environ.get("GITHUB_API_URL") or API).rstrip("/") + "/search/issues"
        self._auth = _Bearer(os.environ.get("GITHUB_TOKEN", "") if token is None else token)
        self._known: dict[str, Search] = {}
        self._failure = ""
        self._lock = threading.Lock()

    def __call__(self, query: str) -> Search:
        """How many pull requests of upstream match. Raises EnvironmentFault when nobody says."""
        with self._lock:
            if query in self._known:
                return self._known[query]
            if not self._failure:
                try:
                    self._known[query] = self._ask(query)
                    return self._known[query]
                # The error's own words may quote an address or a header.
                except (requests.RequestException, OSError) as error:
                    host = urlsplit(self._url).hostname
                    self._failure = f"offline: {host} does not answer ({type(error).__name__})"
                except (ValueError, KeyError, TypeError):
                    self._failure = "the API's answer is no search result (a proxy's page?)"
        raise EnvironmentFault(self._failure, remedy="try again later")

    def _ask(self, query: str) -> Search:
        asked = {"q": f"repo:{REPOSITORY} {query}", "per_page": str(SHOWN)}
        with requests.Session() as session:
            session.auth = self._auth  # without one, requests would send what .netrc holds
            answer = session.get(
                self._url, params=asked, timeout=TIME_LIMITS, allow_redirects=False
            )
        if answer.status_code != 200:
            # 403 and 429: the rate limit, 10 searches a minute without a token
            self._failure = f"the API refuses ({answer.status_code})"
            raise EnvironmentFault(self._failure, remedy="set GITHUB_TOKEN, or try again later")
        return _parse(answer.content)


def _parse(body: bytes) -> Search:
    document = json.loads(body)
    items = document["items"]
    titles = tuple(f"#{int(item['number'])} {' '.join(item['title'].split())}" for item in items)
    return Search(int(document["total_count"]), titles)


class _Bearer(AuthBase):
    """Adds the token to requests that nobody can read on the way."""

    def __init__(self, token: str) -> None:
        # A header that http.client refuses would be quoted in its error.
        self._token = token.strip() if _TOKEN.fullmatch(token.strip()) else ""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        parts = urlsplit(request.url or "")
        if self._token and (parts.scheme == "https" or parts.hostname in LOOPBACK):
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request
