"""Search upstream's pull requests, read-only. Source: GitHub's REST API,
https://docs.github.com/en/rest/search/search#search-issues-and-pull-requests.

Only GET leaves this module.
"""

from __future__ import annotations

import json
import threading
from urllib.parse import urlsplit

import requests

from series.github import REPOSITORY, TIME_LIMITS, Bearer, name_api
from upstream.errors import EnvironmentFault
from validate.policy import Search

SHOWN = 5


class PullRequestSearch:
    """A `Lookup`: the same query is asked once; after one failure nothing is asked any more, so who
    is offline waits for one time limit."""

    def __init__(self, api: str = "", token: str | None = None) -> None:
        self._url = name_api(api) + "/search/issues"
        self._auth = Bearer(token)
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
