# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a trace of Perfetto of another one:  trace-cmd report -R -t -i TRACE | to_perfetto.py PASS_MS FORM... >TRACE

Messages are those of Perfetto's own definitions (the Python package perfetto). They are laid out as its traced_probes writes them: it reads
the buffers of all CPUs every PASS_MS, one CPU after the other, and states addresses by their places in a list that begins anew each time.
Forms: "compact" for compact_sched, "zlib" for compressed packets, "generic" for events that are described in the trace, "symbols" for the
names of functions, "lost" for a loss on each CPU in the middle.
"""
import collections
import re
import sys
import zlib

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import ClockSnapshot, FtraceEvent, Trace

LINE = re.compile(r"^\s*(?P<comm>.*)-(?P<pid>\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<s>\d+)\.(?P<ns>\d{9}): (?P<event>\w+):\s+(?P<fields>.*)$")
FIELD = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")
FUNCTION = {"hrtimer_start", "hrtimer_expire_entry"}
WORD = 8


def number(text):
    return int(text, 16 if text.startswith("0x") else 10)


def numbers(text):
    """ARRAY[00, 01, …]: the bytes of words."""
    data = bytes(int(byte, 16) for byte in text[6:-1].split(", "))
    return [int.from_bytes(data[at:at + WORD], "little") for at in range(0, len(data), WORD)]


def events(lines):
    for line in lines:
        found = LINE.match(line)
        if found:
            ns = int(found["s"]) * 10**9 + int(found["ns"])
            yield ns, int(found["cpu"]), int(found["pid"]), found["event"], dict(FIELD.findall(found["fields"]))


class Pass:
    """What traced_probes knows until it has read all CPUs."""

    def __init__(self, functions):
        self.functions, self.places, self.told = functions, {}, 0

    def place(self, address):
        return self.places.setdefault(address, len(self.places) + 1)

    def fill(self, event, name, fields):
        message = getattr(event, name)
        message.SetInParent()
        for field in message.DESCRIPTOR.fields:
            value = fields.get(field.name)
            if value is None:
                continue
            if field.name == "hrtimer":
                message.hrtimer = self.place(value)
            elif field.name == "function":
                message.function = self.place(self.functions.get(fields["hrtimer"], value))
            elif field.name == "args":
                message.args.extend(numbers(value))
            elif field.type == field.TYPE_STRING:
                setattr(message, field.name, value.strip())
            else:
                setattr(message, field.name, number(value))

    def tell(self, packet):
        """The names that came since the last bundle."""
        for address, place in self.places.items():
            if place > self.told and not address.startswith("0x"):
                packet.interned_data.kernel_symbols.add(iid=place, str=address.encode())
        if packet.HasField("interned_data"):
            packet.sequence_flags = 1 if self.told == 0 else 2
            self.told = len(self.places)


def compact(bundle, ns, name, fields, before):
    sched = bundle.compact_sched
    side = "next_" if name == "sched_switch" else ""
    comm = fields[side + "comm"].strip()
    if comm not in sched.intern_table:
        sched.intern_table.append(comm)
    place = list(sched.intern_table).index(comm)
    delta = ns - before.get(name, 0)
    before[name] = ns
    if name == "sched_switch":
        sched.switch_timestamp.append(delta)
        sched.switch_prev_state.append(number(fields["prev_state"]))
        sched.switch_next_pid.append(int(fields["next_pid"]))
        sched.switch_next_prio.append(int(fields["next_prio"]))
        sched.switch_next_comm_index.append(place)
    else:
        sched.waking_timestamp.append(delta)
        sched.waking_pid.append(int(fields["pid"]))
        sched.waking_target_cpu.append(int(fields["target_cpu"]))
        sched.waking_prio.append(int(fields["prio"]))
        sched.waking_comm_index.append(place)


def add_generic(event, name, fields):
    event.generic.event_name = name
    for key, value in fields.items():
        field = event.generic.field.add(name=key)
        if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", value):
            field.uint_value = number(value) % 2**64
        else:
            field.str_value = value.strip()


def head(trace, first, cpus):
    snapshot = trace.packet.add(trusted_packet_sequence_id=1).clock_snapshot
    for clock, offset in ((ClockSnapshot.Clock.BOOTTIME, 0), (ClockSnapshot.Clock.MONOTONIC, 90), (ClockSnapshot.Clock.REALTIME, 10**18)):
        snapshot.clocks.add(clock_id=clock, timestamp=first - 10**6 + offset)
    snapshot.primary_trace_clock = ClockSnapshot.Clock.BOOTTIME
    info = trace.packet.add(trusted_packet_sequence_id=1).system_info
    info.utsname.sysname, info.utsname.release, info.utsname.machine, info.num_cpus = "Linux", "6.18.44-rt", "x86_64", cpus


def main():
    pass_ns, forms = int(sys.argv[1]) * 10**6, set(sys.argv[2:])
    found = list(events(sys.stdin))
    functions = {}
    for _, _, _, name, fields in found:
        if name == "hrtimer_start":
            functions.setdefault(fields["hrtimer"], fields["function"])
    known = {field.name for field in FtraceEvent.DESCRIPTOR.fields}
    trace = Trace()
    cpus = sorted({cpu for _, cpu, *_ in found})
    first = found[0][0]
    head(trace, first, len(cpus))
    names = {int(fields["next_pid"]): fields["next_comm"].strip() for _, _, _, name, fields in found if name == "sched_switch"}
    tree = trace.packet.add(trusted_packet_sequence_id=3).process_tree
    for tid, name in sorted(names.items()):
        tree.threads.add(tid=tid, tgid=tid, name=name)
    passes = collections.defaultdict(lambda: collections.defaultdict(list))
    for event in found:
        passes[(event[0] - first) // pass_ns][event[1]].append(event)
    ends = collections.defaultdict(int)
    for number, by_cpu in sorted(passes.items()):
        state = Pass(functions)
        for cpu, of_cpu in sorted(by_cpu.items()):
            packet = trace.packet.add(trusted_packet_sequence_id=2)
            bundle = packet.ftrace_events
            bundle.cpu, bundle.previous_bundle_end_timestamp = cpu, ends[cpu]
            if "lost" in forms and number == len(passes) // 2:
                bundle.lost_events = True
            before = {}
            for ns, _, pid, name, fields in of_cpu:
                ends[cpu] = ns
                if "compact" in forms and name in ("sched_switch", "sched_waking"):
                    compact(bundle, ns, name, fields, before)
                    continue
                event = bundle.event.add(timestamp=ns, pid=pid)
                if name not in known or ("generic" in forms and name.startswith("softirq")):
                    add_generic(event, name, fields)
                else:
                    state.fill(event, name, fields)
            if "symbols" in forms:
                state.tell(packet)
    stats = trace.packet.add(trusted_packet_sequence_id=2).ftrace_stats
    stats.phase = stats.END_OF_TRACE
    for cpu in cpus:
        stats.cpu_stats.add(cpu=cpu)
    data = trace.SerializeToString()
    if "zlib" in forms:
        packed = Trace()
        packed.packet.add(compressed_packets=zlib.compress(data))
        data = packed.SerializeToString()
    sys.stdout.buffer.write(data)


main()
