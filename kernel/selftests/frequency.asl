// SPDX-License-Identifier: GPL-2.0-only
// Two frequencies for each of a guest's first two CPUs, set and read by the MSRs of AMD's P-states. The emulator's
// MSRs read as 0, which is the first frequency's status.
DefinitionBlock ("", "SSDT", 2, "ISOLAT", "CPUFREQ", 1)
{
    External (\_SB.CPUS.C000, DeviceObj)
    External (\_SB.CPUS.C001, DeviceObj)
    Name (\_SB.FREG, Package () {
        ResourceTemplate () { Register (FFixedHW, 0, 0, 0) },
        ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }
    })
    // MHz, mW, two latencies in us, control, status
    Name (\_SB.FSTA, Package () {
        Package () { 2000, 1000, 10, 10, 0, 0 },
        Package () { 1000, 500, 10, 10, 1, 1 }
    })
    Scope (\_SB.CPUS.C000)
    {
        Method (_PCT) { Return (\_SB.FREG) }
        Method (_PSS) { Return (\_SB.FSTA) }
        Name (_PPC, 0)
    }
    Scope (\_SB.CPUS.C001)
    {
        Method (_PCT) { Return (\_SB.FREG) }
        Method (_PSS) { Return (\_SB.FSTA) }
        Name (_PPC, 0)
    }
}
