# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loops of Python that stamp their own cycles: sleeps.py STYLE PERIOD_US CYCLES FILE"""

import sys
import threading
import time

WORK_NS = 50_000


def main():
    style, period_ns, cycles, path = sys.argv[1], int(sys.argv[2]) * 1000, int(sys.argv[3]), sys.argv[4]
    stamps = []
    event = threading.Event()
    print("started", flush=True)
    due = time.monotonic_ns()

    def wait():
        nonlocal due
        if style == "sleep":
            time.sleep((period_ns - WORK_NS) / 1e9)
        elif style == "event":
            event.wait((period_ns - WORK_NS) / 1e9)
        elif style == "sleep-until":
            due += period_ns
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        else:
            sys.exit(f"sleeps.py: no style {style}")

    for _ in range(cycles):
        wait()
        begin, cpu = time.monotonic_ns(), time.thread_time_ns()
        while time.monotonic_ns() - begin < WORK_NS:
            pass
        cpu = time.thread_time_ns() - cpu
        stamps.append((begin, time.monotonic_ns(), cpu))
    wait()
    with open(path, "w", encoding="utf-8") as file:
        print("thread", threading.get_native_id(), "python", file=file)
        for begin, end, cpu in stamps:
            print("cycle", 0, begin, end, cpu, file=file)


main()
