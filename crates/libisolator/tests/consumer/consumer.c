/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A message from one end of a ring to the other, and the version of the library. */
#include <stdint.h>
#include <stdio.h>

#include <isolator.h>

static void add(const void *message, size_t bytes, void *data)
{
	if (bytes == sizeof(uint64_t))
		*(uint64_t *)data += *(const uint64_t *)message;
}

int main(void)
{
	struct isolator_receiver *receiver = NULL;
	struct isolator_sender *sender = NULL;
	struct isolator_ring *ring = NULL;
	uint64_t message = 42, sum = 0;
	int failed = isolator_ring_create(4, sizeof(message), &ring) || isolator_sender_open(ring, &sender) ||
		     isolator_receiver_open(ring, &receiver) || isolator_sender_post(sender, &message, sizeof(message)) ||
		     isolator_receiver_poll(receiver, 4, add, &sum) != 1 || sum != message;

	if (failed)
		fprintf(stderr, "%s\n", isolator_last_error());
	isolator_receiver_close(receiver);
	isolator_sender_close(sender);
	isolator_ring_free(ring);
	if (!failed)
		printf("isolator %s\n", isolator_version());
	return failed;
}
