/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A control loop at 1 kHz: set up, isolated where the kernel can, a message a cycle to whoever logs.
 *
 *	cc -std=c11 -Wall loop.c -lisolator -lpthread -o loop && ./loop [CYCLES]
 */
#include <errno.h>
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

static void print(const void *message, size_t bytes, void *data)
{
	uint64_t late = bytes == sizeof(late) ? *(const uint64_t *)message : 0, *worst = data;

	*worst = late > *worst ? late : *worst;
}

static void *log_cycles(void *ring)
{
	struct isolator_receiver *receiver;
	uint64_t worst = 0, cycles = 0;
	int taken;

	if (isolator_receiver_open(ring, &receiver))
		return NULL;
	while ((taken = isolator_poll(receiver, 64, print, &worst)) >= 0) {
		cycles += taken;
		nanosleep(&(struct timespec){ .tv_nsec = 5 * PERIOD_NS }, NULL);
	}
	printf("%" PRIu64 " cycles, the latest %" PRIu64 " ns late\n", cycles, worst);
	isolator_receiver_close(receiver);
	return NULL;
}

int main(int argc, char **argv)
{
	long cycles = argc > 1 ? atol(argv[1]) : 1000;
	struct isolator_session *session = NULL;
	struct isolator_rt_config config;
	struct isolator_sender *sender;
	struct isolator_ring *ring;
	struct timespec next, now;
	pthread_t logger;

	if (isolator_ring_create(1024, 8, &ring) || isolator_sender_open(ring, &sender) ||
	    pthread_create(&logger, NULL, log_cycles, ring))
		return fprintf(stderr, "loop: %s\n", isolator_last_error()), 1;
	isolator_rt_defaults(&config);
	config.policy = ISOLATOR_POLICY_FIFO;
	config.report = say;
	if (isolator_rt_setup(&config, NULL) || isolator_start(0, &session))
		fprintf(stderr, "loop: going on: %s\n", isolator_last_error());
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (; cycles > 0; cycles--) {
		next.tv_sec += (next.tv_nsec + PERIOD_NS) / 1000000000;
		next.tv_nsec = (next.tv_nsec + PERIOD_NS) % 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		isolator_post(sender, &(uint64_t){ (now.tv_sec - next.tv_sec) * 1000000000ull + now.tv_nsec - next.tv_nsec }, 8);
		if (session && isolator_pending(session))
			isolator_tick(session, 0);
	}
	if (session)
		isolator_stop(session);
	isolator_sender_close(sender);
	pthread_join(logger, NULL);
	isolator_ring_free(ring);
	return 0;
}
