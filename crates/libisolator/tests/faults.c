/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A loop that calls everything a loop may call, and its page faults after the set-up; 77 where memory cannot be locked. */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <sys/resource.h>

#include <isolator.h>

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

static void each(const void *message, size_t bytes, void *data)
{
	*(uint64_t *)data += bytes + *(const char *)message;
}

int main(void)
{
	struct isolator_receiver *receiver;
	struct isolator_rt_config config;
	struct isolator_monitor *monitor;
	struct isolator_sender *sender;
	struct isolator_ring *ring;
	struct timespec now;
	uint64_t sum = 0;
	long before;
	int result;

	if (isolator_ring_create(64, 200, &ring) || isolator_sender_open(ring, &sender) ||
	    isolator_receiver_open(ring, &receiver) || isolator_monitor_create("faults", 1000000, &monitor))
		return puts(isolator_last_error()), 1;
	isolator_rt_defaults(&config);
	config.heap_bytes = 1 << 20;
	result = isolator_rt_setup(&config, NULL);
	if (result)
		return puts(isolator_last_error()), result == -EPERM || result == -ENOMEM ? 77 : 1;
	before = faults();
	/* Beyond the room of the monitor, which is not read. */
	for (int cycle = 0; cycle < 20000; cycle++) {
		char message[200] = { 1 };

		isolator_monitor_begin(monitor, isolator_clock_ticks());
		if (isolator_sender_post(sender, message, sizeof(message)) || isolator_receiver_poll(receiver, 9, each, &sum) != 1)
			return puts("a message was lost"), 1;
		isolator_monitor_mark(monitor);
		clock_gettime(CLOCK_MONOTONIC, &now);
		isolator_session_pending(NULL);
		isolator_monitor_end(monitor);
	}
	printf("%ld page faults\n", faults() - before);
	return sum != 20000 * 201;
}
