/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A 32-bit program without a library, whose loop sleeps until each period of 2 ms: cc -m32 -nostdlib -static.
 */
struct time {
	int s, ns;
};

enum { EXIT = 1, CLOCK_GETTIME = 265, CLOCK_NANOSLEEP = 267, MONOTONIC = 1, ABSTIME = 1, CYCLES = 300, PERIOD_NS = 2000000 };

static int call(int number, int first, int second, const void *third)
{
	int answer;

	__asm__ volatile("int $0x80" : "=a"(answer) : "a"(number), "b"(first), "c"(second), "d"(third), "S"(0) : "memory");
	return answer;
}

void _start(void)
{
	struct time until;

	call(CLOCK_GETTIME, MONOTONIC, (int)&until, 0);
	for (int n = 0; n < CYCLES; n++) {
		until.ns += PERIOD_NS;
		if (until.ns >= 1000000000) {
			until.ns -= 1000000000;
			until.s++;
		}
		call(CLOCK_NANOSLEEP, MONOTONIC, ABSTIME, &until);
	}
	call(EXIT, 0, 0, 0);
}
