"""What the command lines that open the Vulkan lane share."""

from __future__ import annotations

import argparse

from validate.vulkan.cases import LIMIT


def add_vulkan_options(parser: argparse.ArgumentParser) -> None:
    """Whether the lane is opened, on which device, and how much it runs."""
    parser.add_argument(
        "--vulkan",
        choices=("auto", "off", "on"),
        default="auto",
        help="Vulkan checks: where the tools are there (auto), not at all, or else exit code 3",
    )
    parser.add_argument(
        "--vulkan-device", default="", metavar="NAME", help="a GPU first, else lavapipe"
    )
    parser.add_argument(
        "--vulkan-cases",
        type=int,
        default=LIMIT,
        metavar="N",
        help=f"most cases of test-backend-ops a step there ({LIMIT})",
    )
