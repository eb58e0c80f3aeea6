/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A control loop at 1 kHz: set up, isolated where the kernel can, a message a cycle for a logger, and a monitor:
 *
 *	cc -std=c11 -Wall loop.c -lisolator -lpthread -o loop && ./loop [CYCLES] & isolator monitor $!
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <isolator.h>

#define PERIOD_NS 1000000

static void say(const char *step, int result, const char *text, void *data)
{
	(void)data;
	printf("%-12s %s%s\n", step, result ? "no: " : "", text);
}

static void last_due(const void *message, size_t bytes, void *data)
{
	if (bytes == sizeof(uint64_t))
		*(uint64_t *)data = *(const uint64_t *)message;
}

static void *log_cycles(void *ring)
{
	struct isolator_receiver *receiver;
	uint64_t due = 0, cycles = 0;
	int taken;

	if (isolator_receiver_open(ring, &receiver))
		return NULL;
	while ((taken = isolator_receiver_poll(receiver, 64, last_due, &due)) >= 0) {
		cycles += taken;
		nanosleep(&(struct timespec){ .tv_nsec = 5 * PERIOD_NS }, NULL);
	}
	printf("%" PRIu64 " cycles, the last due at %" PRIu64 " ns\n", cycles, due);
	isolator_receiver_close(receiver);
	return NULL;
}

int main(int argc, char **argv)
{
	struct isolator_session *session = NULL;
	struct isolator_rt_config config;
	struct isolator_monitor *monitor;
	struct isolator_sender *sender;
	struct isolator_ring *ring;
	struct timespec now;
	pthread_t logger;

	if (isolator_ring_create(1024, 8, &ring) || isolator_sender_open(ring, &sender) ||
	    isolator_monitor_create("loop", PERIOD_NS, &monitor) || pthread_create(&logger, NULL, log_cycles, ring))
		return fprintf(stderr, "loop: %s\n", isolator_last_error()), 1;
	isolator_rt_defaults(&config);
	config.policy = ISOLATOR_POLICY_FIFO;
	config.report = say;
	if (isolator_rt_setup(&config, NULL) || isolator_session_start(0, &session))
		fprintf(stderr, "loop: going on: %s\n", isolator_last_error());
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t due = now.tv_sec * 1000000000ull + now.tv_nsec;
	for (long cycles = argc > 1 ? atol(argv[1]) : 1000; cycles > 0; cycles--, due += PERIOD_NS) {
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){ due / 1000000000, due % 1000000000 }, NULL);
		isolator_monitor_begin(monitor, due);
		isolator_sender_post(sender, &due, sizeof(due));
		isolator_monitor_end(monitor);
		if (isolator_session_pending(session))
			isolator_session_tick(session, 0);
	}
	isolator_session_stop(session);
	isolator_monitor_close(monitor);
	isolator_sender_close(sender);
	pthread_join(logger, NULL);
	isolator_ring_free(ring);
	return 0;
}
