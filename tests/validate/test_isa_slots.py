"""How tasks that wait for each other share the processors."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

from upstream.git import Git
from upstream.lab import Lab
from validate.isa.slots import Slots
from validate.isa.workshop import Workshop, open_workshop

SECONDS = 10.0


def test_no_more_tasks_than_slots_run_at_once(shop: Workshop) -> None:
    lock, running, most = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if number < 2:
            both.wait(SECONDS)  # two do run at once
        with lock:
            running -= 1
        return number

    assert shop.share_out(work, range(20)) == list(range(20))
    assert most == 2


def test_a_task_that_waits_for_a_file_lets_others_run(lab: Lab, tmp_path: Path) -> None:
    """With one slot: the first makes a file while the second wants it; the third runs meanwhile."""
    git = Git(lab.repository)
    git.create()
    seen, third = list[int](), threading.Event()
    with open_workshop(lab, git, jobs=1) as shop:
        holding = shop.making(tmp_path / "file")
        holding.__enter__()

        def work(number: int) -> None:
            if number == 0:
                with shop.making(tmp_path / "file"):
                    seen.append(number)
            else:
                seen.append(number)
                third.set()

        asked = threading.Thread(target=lambda: shop.share_out(work, range(2)), daemon=True)
        asked.start()
        assert third.wait(SECONDS)
        holding.__exit__(None, None, None)
        asked.join(SECONDS)
    assert seen == [1, 0]


def test_what_a_task_waited_for_is_given_back_at_the_end(lab: Lab, tmp_path: Path) -> None:
    git = Git(lab.repository)
    git.create()
    with open_workshop(lab, git, jobs=1) as shop:
        file, began = tmp_path / "file", threading.Event()

        def work(_: int) -> None:
            began.set()
            with shop.making(file):
                raise AssertionError("it goes on")

        with shop.making(file):
            asked = ThreadPoolExecutor(1).submit(shop.share_out, work, range(1))
            assert began.wait(SECONDS)
            closing = ThreadPoolExecutor(1).submit(shop.close)
            while not shop.closed:
                pass
        assert isinstance(asked.exception(SECONDS), CancelledError)
        closing.result(SECONDS)
        with shop.making(file):
            pass


def test_who_has_waited_goes_on_before_a_new_task() -> None:
    slots, order = Slots(1), list[str]()
    waiting, ready = threading.Event(), threading.Event()

    def wait() -> None:
        with slots.task():
            with slots.lent():
                waiting.set()
                ready.wait(SECONDS)
            order.append("returned")

    def start() -> None:
        with slots.task():
            order.append("new")

    first = threading.Thread(target=wait, daemon=True)
    first.start()
    waiting.wait(SECONDS)
    with slots.task():  # the slot that was lent
        others = [threading.Thread(target=start, daemon=True) for _ in range(3)]
        for each in others:
            each.start()
        ready.set()
        while not slots.returning:
            pass
    for each in (first, *others):
        each.join(SECONDS)
    assert order == ["returned", "new", "new", "new"]


def test_no_new_task_and_none_that_waits_after_the_end() -> None:
    slots = Slots(1)
    with pytest.raises(CancelledError), slots.task(), slots.lent():
        slots.close()
    with pytest.raises(CancelledError), slots.task():
        pass
    with slots.lent():  # a thread that is no task has no slot to lend
        pass
