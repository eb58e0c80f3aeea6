# SPDX-License-Identifier: MIT OR Apache-2.0
"""SOEM, a MainDevice that is not ours, brings the segment at an interface to OP and exchanges process data.

Says one line of JSON. Usage: soem.py INTERFACE CYCLES
"""
import json
import os
import sys
import time

import pysoem

# As programs with SOEM do: it waits a few milliseconds for an answer.
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
interface, cycles = sys.argv[1], int(sys.argv[2])
main = pysoem.Master()
main.open(interface)
found = main.config_init()
names = [device.name for device in main.slaves]
said = [device.sdo_read(0x1008, 0).decode() for device in main.slaves]
main.config_map()
has_clocks = bool(main.config_dc())
for device in main.slaves:
    device.dc_sync(True, 1_000_000)
main.state_check(pysoem.SAFEOP_STATE, 2_000_000)


def exchange():
    main.send_processdata()
    return main.receive_processdata(100_000)


exchange()
main.state = pysoem.OP_STATE
main.write_state()
end = time.monotonic() + 10
while main.state_check(pysoem.OP_STATE, 1_000) != pysoem.OP_STATE and time.monotonic() < end:
    exchange()

for device in main.slaves:
    device.output = bytes([1, 2, 3, 4])
exchange()
right = sum(exchange() == main.expected_wkc for _ in range(cycles))
echoed = [device.input[:4] == bytes([1, 2, 3, 4]) for device in main.slaves]
state = main.read_state()
main.close()
print(json.dumps({
    "found": found, "names": names, "said": said, "clocks": has_clocks, "state": state,
    "expected": main.expected_wkc, "right": right, "echoed": echoed,
}))
