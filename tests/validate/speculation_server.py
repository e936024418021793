"""Stand-in (labelled fake) for llama-server: health, streamed answers with timings, /metrics.

It takes llama-server's options and ignores most. A drafter makes it faster by what its draft
length says. STANDIN names a fault: dies, sick, loading, silent, vocab, miscounts.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKENS = 12
FAULT = os.environ.get("STANDIN", "")
OPTIONS = dict(zip(sys.argv[1:], sys.argv[2:], strict=False))
LENGTH = int(OPTIONS.get("--spec-draft-n-max", 0))
SPEED = 10.0 * (1 + LENGTH if LENGTH < 4 else 1.0 / LENGTH)
TOTALS = {"predicted": 0, "draft": 0, "accepted": 0}
NAMES = {
    "predicted": "tokens_predicted_total",
    "draft": "spec_decode_num_draft_tokens_total",
    "accepted": "spec_decode_num_accepted_tokens_total",
}


def pieces() -> Iterator[tuple[int, int]]:
    """Rounds of all accepted, one token of the prompt first."""
    tokens, drafted = 1, 0
    yield 1, 0
    while tokens < TOKENS:
        length = min(LENGTH, TOKENS - tokens - 1)
        drafted += length
        for _ in range(length + 1):
            tokens += 1
            yield tokens, drafted


def say(text: str) -> None:
    """A line of the log."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(503 if FAULT == "loading" else 200)
        self.end_headers()
        if self.path == "/metrics":
            extra = 1 if FAULT == "miscounts" and TOTALS["predicted"] > TOKENS else 0
            for key, name in NAMES.items():
                self.wfile.write(f"llamacpp:{name} {TOTALS[key] + extra}\n".encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        for tokens, drafted in pieces():
            timings = {"predicted_n": tokens, "predicted_per_second": SPEED}
            timings |= {"draft_n": drafted, "draft_n_accepted": drafted} if drafted else {}
            event = {"choices": [{"delta": {"content": "x"}}]}
            event |= {} if FAULT == "silent" else {"timings": timings}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            if FAULT == "dies" and tokens > 3:
                say("0.1 E ggml: device lost")
                os._exit(9)
        TOTALS["predicted"] += TOKENS
        TOTALS["draft"] += drafted
        TOTALS["accepted"] += drafted
        self.wfile.write(b"data: [DONE]\n\n")


if FAULT == "sick":
    say("0.1 W model has unused tensor blk.4.nextn.enorm.weight")
    say("0.1 E srv: failed to create MTP context: no MTP layers")
    sys.exit(1)
if FAULT == "vocab" and LENGTH:
    words = "the target and draft vocabs are not compatible"
    say(f"0.1 E failed to initialize speculative decoding context: {words}")
if FAULT == "stubborn":
    time.sleep(600)
ThreadingHTTPServer(("127.0.0.1", int(OPTIONS["--port"])), Handler).serve_forever()
