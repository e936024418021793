"""A topic alone, built and judged as the stack is; what the stack built or measured with the same
content comes from the store."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from series.model import Series
from series.topic_stack import TopicStack
from upstream.git import Git
from upstream.lab import Lab, hold_lock
from validate.__main__ import make_builder, make_lane, measure
from validate.build import Builder, StepBuild, build_stack
from validate.cells import Speed
from validate.checks import Validation, validate_stack
from validate.corpus import open_corpus
from validate.export.model import Trial
from validate.fingerprint import describe_run
from validate.guards import Placement
from validate.ledger.check import LedgerBook, met_versions
from validate.markdown_tables import format_all
from validate.models import provide_model
from validate.profiles import FULL, QUICK, Profile
from validate.report_build import Findings
from validate.room import Room
from validate.sample_store import open_samples
from validate.shader_root import find_root
from validate.source_tree import open_check_tree
from validate.speed import Bench, Measured, Pairing, recall_speed
from validate.speed_stack import add_speed, compare_stack, list_pairings
from validate.vulkan.lane import Lane

RECALLED = (FULL, QUICK)  # the fuller measurement is the better evidence


@dataclass(frozen=True)
class Workshop:
    """What trials of one run share. `profile`: measure speed with it; None: only what is stored."""

    lab: Lab
    git: Git
    series: Series
    args: argparse.Namespace
    profile: Profile | None

    def try_alone(self, alone: TopicStack) -> Trial:
        """Build and judge one topic.

        Raises InvalidMeasurement when the base does not build, EnvironmentFault for the machine.
        """
        builder = make_builder(self.args, self.lab, alone.stack)
        builds = build_stack(builder, alone.stack)
        room = Room(self.lab, provide_model(self.lab), threads=self.args.threads)
        lane = make_lane(self.args, builder, alone.stack, room)
        found = self._judge(builder, alone, room, builds, lane)
        header = describe_run(builder, alone.stack, room)
        return Trial(
            lane.describe(header) if lane else header,
            tuple(found.builds),
            tuple(found.steps),
            tuple(found.speeds),
            found.pr_text,
        )

    def _judge(
        self,
        builder: Builder,
        alone: TopicStack,
        room: Room,
        builds: Sequence[StepBuild],
        lane: Lane | None,
    ) -> Findings:
        stack, git = alone.stack, self.git
        series, versions = self.series, met_versions(git, self.series, stack)
        book = LedgerBook(self.lab, git, series, stack, versions, alone=True)
        root = self.args.root or find_root(self.lab)
        source = open_check_tree(self.lab, git)
        validation = Validation(room, series, source, root, book, open_corpus(), lane)
        found = Findings(validate_stack(validation, builds), builds)
        if self.profile is not None:
            return measure(self.args, self.profile, room, builder, found)
        return self._recall(room, builder, found)

    def _recall(self, room: Room, builder: Builder, found: Findings) -> Findings:
        """Speeds that the store has; nothing is measured."""
        pairings = list_pairings(found.builds)
        with hold_lock(self.lab, "validate"), open_samples(self.lab) as store:
            toolchain = hashlib.sha256(builder.toolchain.identity.encode()).hexdigest()
            benches = [
                Bench(
                    room=room,
                    profile=profile,
                    store=store,
                    toolchain=toolchain,
                    budget=0.0,
                    placement=Placement(profile.threads or room.threads),
                )
                for profile in RECALLED
            ]
            recalled = {each.name: _recall_one(benches, each) for each in pairings}
        known = {name: one for name, one in recalled.items() if one is not None}
        compared = [pairing for pairing in pairings if pairing.name in known]
        speeds = compare_stack(compared, known)
        text = format_all(speeds, {name: one.samples for name, one in known.items()})
        steps = add_speed(found.steps, compared, known)
        return Findings(steps, found.builds, speeds, pr_text=text)


def _recall_one(benches: Sequence[Bench], pairing: Pairing) -> Measured | None:
    """The fullest stored comparison; one with a program that the source lacks is none."""
    for bench in benches:
        found = recall_speed(bench, pairing)
        if found and all(cell.verdict is not Speed.INVALID for cell in found.cells):
            return found
    return None
