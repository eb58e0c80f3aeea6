# SPDX-License-Identifier: MIT OR Apache-2.0
"""Watches the loop of another program: a line a second, and a word for each cycle that was too late or took too long.

    python3 supervisor.py PID [--name LOOP] [--limit-us 100] [--seconds 60]

Exit status: 0 every cycle was in time, 1 the loop cannot be watched, 2 one was not, or was lost.
"""

import argparse
import errno
import sys
import time

import isolator


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Watches the loop of another program.")
    parser.add_argument("process", type=int)
    parser.add_argument("--name")
    parser.add_argument("--limit-us", type=float, help="largest wakeup latency [default: a tenth of the period]")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    return parser.parse_args()


def attached(args: argparse.Namespace) -> isolator.Reader:
    """The loop, which may be about to begin."""
    for _ in range(50):
        try:
            return isolator.Reader(args.process, args.name)
        except isolator.Error as error:
            if error.errno != errno.ENOENT:
                raise
            waiting = error
        time.sleep(0.1)
    raise waiting


def watch(reader: isolator.Reader, args: argparse.Namespace) -> bool:
    """Whether every cycle was in time."""
    limit_ns = reader.period_ns / 10 if args.limit_us is None else args.limit_us * 1000
    end, in_time, seen, due = time.monotonic() + args.seconds, True, 0, None
    while time.monotonic() < end:
        time.sleep(min(1, args.seconds))
        try:
            cycles = reader.poll()
        except isolator.Ended:
            print("the loop has ended")
            break
        for cycle in cycles:
            if cycle.latency_ns > limit_ns or cycle.execution_ns > reader.period_ns:
                in_time = False
                print(f"cycle {cycle.number}: {cycle.latency_ns / 1e3:.1f} us late, took {cycle.execution_ns / 1e3:.1f} us")
            if due is not None and cycle.due_ns - due > 1.5 * reader.period_ns:
                in_time = False
                print(f"cycle {cycle.number}: periods before it were left out")
            due = cycle.due_ns
        seen += len(cycles)
        latest = max((cycle.latency_ns for cycle in cycles), default=0)
        print(f"{seen} cycles, {reader.lost} lost, the latest {latest / 1e3:.1f} us late", flush=True)
    return in_time and reader.lost == 0 and seen > 0


def main() -> int:
    args = arguments()
    try:
        with attached(args) as reader:
            return 0 if watch(reader, args) else 2
    except isolator.Error as error:
        print(f"supervisor: {error.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
