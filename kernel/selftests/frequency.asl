// SPDX-License-Identifier: GPL-2.0-only
// Two frequencies for the second CPU of a guest. Its port 0x80 reads 0xff, which is the status of the first.
DefinitionBlock ("", "SSDT", 2, "ISOLAT", "CPUFREQ", 1)
{
    External (\_SB.CPUS.C001, DeviceObj)
    Scope (\_SB.CPUS.C001)
    {
        Name (_PCT, Package () {
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x80) },
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x80) }
        })
        Name (_PSS, Package () {
            Package () { 2000, 1000, 10, 10, 0x01, 0xff },
            Package () { 1000, 500, 10, 10, 0x02, 0x02 }
        })
        Name (_PPC, 0)
    }
}
