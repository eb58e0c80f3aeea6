// SPDX-License-Identifier: MIT OR Apache-2.0

// Loops of Go: sleeps STYLE, until it is ended. STYLE is `ticker` or `sleep`; `locked` is a ticker whose goroutine has a thread of its own,
// with a real-time priority. `started` is printed when the loop begins.
package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

const period = 5 * time.Millisecond

func work() {
	for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
	}
}

func main() {
	style := os.Args[1]
	if style == "locked" {
		runtime.LockOSThread()
		priority, fifo := int32(40), uintptr(1)
		_, _, why := syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, fifo, uintptr(unsafe.Pointer(&priority)))
		if why != 0 {
			panic(why)
		}
	}
	fmt.Println("started")
	if style == "sleep" {
		for {
			time.Sleep(period)
			work()
		}
	}
	for range time.NewTicker(period).C {
		work()
	}
}
