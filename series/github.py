"""Where upstream's GitHub API is, and the token for it. Only GET is ever sent there.

`GITHUB_TOKEN` raises the rate limit; it goes to https or the loopback alone and is in no file,
message or error. `GITHUB_API_URL` names another host.
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

REPOSITORY = "ggml-org/llama.cpp"
API = "https://api.github.com"
TIME_LIMITS = (4.0, 15.0)  # seconds to connect, seconds without a byte
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TOKEN = re.compile(r"[\x21-\x7e]+")


def name_api(api: str = "") -> str:
    """The API's address, without a slash at its end."""
    return (api or os.environ.get("GITHUB_API_URL") or API).rstrip("/")


class Bearer(AuthBase):
    """Adds the token to requests that cannot be read on the way; None takes GITHUB_TOKEN."""

    def __init__(self, token: str | None = None) -> None:
        stripped = (os.environ.get("GITHUB_TOKEN", "") if token is None else token).strip()
        # http.client quotes a header that it refuses, so a token it would refuse is not used.
        self.token = stripped if _TOKEN.fullmatch(stripped) else ""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        parts = urlsplit(request.url or "")
        if self.token and (parts.scheme == "https" or parts.hostname in LOOPBACK):
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request
