/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls on a receiver or a reader that polls already: refused, from within the callback and from another thread; a close ends the
 * handle after the poll. Silent where all is as expected. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdint.h>

#include <isolator.h>

static int wrong;

static void expect(int line, long got, long expected)
{
	if (got == expected)
		return;
	printf("line %d: %ld, expected %ld\n", line, got, expected);
	wrong = 1;
}

#define EXPECT(got, expected) expect(__LINE__, got, expected)

static struct isolator_receiver *receiver;
static struct isolator_reader *reader;
static int seen, closes;
static atomic_int inside, go_on;

static void ignore(const void *message, size_t bytes, void *data)
{
	(void)message, (void)bytes, (void)data;
	seen += 1000;
}

static void again(const void *message, size_t bytes, void *data)
{
	(void)message, (void)bytes;
	EXPECT(isolator_receiver_poll(receiver, 8, ignore, data), -EBUSY);
	EXPECT(isolator_receiver_wait(receiver, 0), -EBUSY);
	EXPECT(isolator_receiver_has_sender(receiver), -EBUSY);
	if (closes)
		isolator_receiver_close(receiver);
	closes = 0;
	seen++;
}

static void ignore_cycle(const struct isolator_cycle *cycle, void *data)
{
	(void)cycle, (void)data;
	seen += 1000;
}

static void cycle_again(const struct isolator_cycle *cycle, void *data)
{
	(void)cycle;
	EXPECT(isolator_reader_poll(reader, ignore_cycle, data), -EBUSY);
	EXPECT(isolator_reader_lost(reader), 0);
	EXPECT(isolator_reader_period_ns(reader), 1000000);
	if (closes)
		isolator_reader_close(reader);
	closes = 0;
	seen++;
}

static void stay(const void *message, size_t bytes, void *data)
{
	(void)message, (void)bytes, (void)data;
	atomic_store(&inside, 1);
	while (!atomic_load(&go_on))
		;
}

static void *polls(void *data)
{
	(void)data;
	EXPECT(isolator_receiver_poll(receiver, 8, stay, NULL), 1);
	return NULL;
}

static void cycles(struct isolator_monitor *monitor, int count)
{
	while (count--) {
		isolator_monitor_begin(monitor, 0);
		isolator_monitor_end(monitor);
	}
}

int main(void)
{
	struct isolator_ring *ring;
	struct isolator_sender *sender;
	struct isolator_monitor *monitor;
	pthread_t thread;
	uint64_t word = 1;

	EXPECT(isolator_ring_create(8, 8, &ring), 0);
	EXPECT(isolator_sender_open(ring, &sender), 0);
	EXPECT(isolator_receiver_open(ring, &receiver), 0);

	/* Another thread's poll is refused while one is under way, and goes on afterwards. */
	EXPECT(isolator_sender_post(sender, &word, 8), 0);
	EXPECT(pthread_create(&thread, NULL, polls, NULL), 0);
	while (!atomic_load(&inside))
		;
	EXPECT(isolator_receiver_poll(receiver, 8, ignore, NULL), -EBUSY);
	atomic_store(&go_on, 1);
	EXPECT(pthread_join(thread, NULL), 0);
	EXPECT(isolator_receiver_poll(receiver, 8, ignore, NULL), 0);

	for (int n = 0; n < 3; n++)
		EXPECT(isolator_sender_post(sender, &word, 8), 0);
	EXPECT(isolator_receiver_poll(receiver, 8, again, NULL), 3);
	EXPECT(seen, 3);

	/* Closed in the callback: the poll ends first, and another receiver may then be opened. */
	for (int n = 0; n < 2; n++)
		EXPECT(isolator_sender_post(sender, &word, 8), 0);
	closes = 1;
	EXPECT(isolator_receiver_poll(receiver, 8, again, NULL), 2);
	EXPECT(isolator_sender_post(sender, &word, 8), -EPIPE);
	isolator_sender_close(sender);
	isolator_ring_free(ring);

	EXPECT(isolator_monitor_create("loop", 1000000, &monitor), 0);
	EXPECT(isolator_reader_attach_fd(isolator_monitor_fd(monitor), &reader), 0);
	seen = 0;
	cycles(monitor, 3);
	EXPECT(isolator_reader_poll(reader, cycle_again, NULL), 3);
	EXPECT(seen, 3);
	cycles(monitor, 1);
	closes = 1;
	EXPECT(isolator_reader_poll(reader, cycle_again, NULL), 1);
	/* It is free for another. */
	EXPECT(isolator_reader_attach_fd(isolator_monitor_fd(monitor), &reader), 0);
	isolator_reader_close(reader);
	isolator_monitor_close(monitor);
	return wrong;
}
