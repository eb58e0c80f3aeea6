/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every call given what it cannot take: a number, and a line that says what to do. Silent where all is as expected. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <isolator.h>

static int wrong;

static void expect(int line, int got, int expected, const char *text)
{
	const char *said = text ? isolator_last_error() : "";

	if (got == expected && (!text || strstr(said, text)))
		return;
	printf("line %d: %d, expected %d; '%s', expected '%s'\n", line, got, expected, said, text ? text : "");
	wrong = 1;
}

#define EXPECT(call, expected, text) expect(__LINE__, call, expected, text)

static void cycle(const struct isolator_cycle *cycle, void *data)
{
	(void)cycle;
	(void)data;
}

int main(void)
{
	static const uint64_t word;
	static const uint32_t cpu;
	struct isolator_rt_config config;
	struct isolator_session *session;
	struct isolator_sender *sender, *another;
	struct isolator_receiver *receiver;
	struct isolator_monitor *monitor, *other;
	struct isolator_reader *reader, *another_reader;
	struct isolator_ring *ring;
	struct isolator_rt *done;
	char message[64] = "";
	int file = open("/dev/null", O_RDWR);

	EXPECT(isolator_ring_create(3, 8, &ring), -EINVAL, "give a power of two");
	EXPECT(isolator_ring_create(4, 8, NULL), -EINVAL, "a pointer is NULL");
	EXPECT(isolator_ring_attach(file, &ring), -EINVAL, "it is not sealed memory");
	EXPECT(isolator_ring_attach(-1, &ring), -EBADF, "give an open descriptor");
	EXPECT(isolator_ring_attach(987, &ring), -EBADF, "give an open descriptor");
	EXPECT(isolator_ring_fd(NULL), -EINVAL, NULL);

	EXPECT(isolator_ring_create(4, 8, &ring), 0, NULL);
	EXPECT(isolator_sender_open(ring, &sender), 0, NULL);
	EXPECT(isolator_sender_open(ring, &another), -EBUSY, "some process has it; make a ring for each sender");
	EXPECT(isolator_sender_has_receiver(sender), 0, NULL);
	EXPECT(isolator_sender_post(sender, message, 9), -EMSGSIZE, NULL);
	EXPECT(isolator_sender_post(sender, NULL, 1), -EINVAL, NULL);
	EXPECT(isolator_sender_post(sender, NULL, SIZE_MAX), -EINVAL, NULL);
	EXPECT(isolator_sender_post(sender, message, SIZE_MAX), -EMSGSIZE, NULL);
	EXPECT(isolator_sender_post_and_wake(sender, message, SIZE_MAX), -EMSGSIZE, NULL);
	EXPECT(isolator_sender_post(NULL, message, 1), -EINVAL, NULL);
	for (int n = 0; n < 4; n++)
		EXPECT(isolator_sender_post(sender, &word, 8), 0, NULL);
	EXPECT(isolator_sender_post(sender, &word, 8), -EAGAIN, NULL);
	EXPECT(isolator_receiver_open(ring, &receiver), 0, NULL);
	EXPECT(isolator_sender_has_receiver(sender) && isolator_receiver_has_sender(receiver), 1, NULL);
	EXPECT(isolator_receiver_poll(receiver, 1, NULL, NULL), -EINVAL, NULL);
	isolator_receiver_close(receiver);
	EXPECT(isolator_sender_post(sender, &word, 8), -EPIPE, NULL);
	isolator_sender_close(sender);
	isolator_ring_free(ring);

	memset(&config, 0, sizeof(config));
	EXPECT(isolator_rt_setup(NULL, &done), -EINVAL, "a pointer is NULL");
	EXPECT(isolator_rt_setup(&config, &done), -EINVAL, "call isolator_rt_defaults() first");
	isolator_rt_defaults(&config);
	config.flags = ISOLATOR_RT_NO_LOCK;
	config.policy = 9;
	EXPECT(isolator_rt_setup(&config, &done), -EINVAL, "choose ISOLATOR_POLICY_FIFO");
	config.policy = ISOLATOR_POLICY_FIFO;
	config.priority = 100;
	EXPECT(isolator_rt_setup(&config, &done), -EINVAL, "choose 1 to 98");
	config.policy = ISOLATOR_POLICY_KEEP;
	for (int bit = 2; bit < 32; bit++) {
		config.flags = ISOLATOR_RT_NO_LOCK | 1u << bit;
		EXPECT(isolator_rt_setup(&config, &done), -EINVAL, "this version does not know the flags 0x");
		EXPECT(done == NULL, 1, NULL);
	}
	config.flags = ISOLATOR_RT_NO_LOCK;
	config.cpus = NULL;
	config.cpu_count = 2;
	EXPECT(isolator_rt_setup(&config, &done), -EINVAL, "cpu_count is 2 and no such list is at cpus");
	config.cpus = &cpu;
	config.cpu_count = SIZE_MAX / sizeof(cpu);
	EXPECT(isolator_rt_setup(&config, &done), -EINVAL, "no such list is at cpus");
	config.cpu_count = 0;
	config.heap_bytes = SIZE_MAX / 2;
	EXPECT(isolator_rt_setup(&config, &done), -ENOMEM, "bytes are asked for");
	config.heap_bytes = 1 << 20;
	EXPECT(isolator_rt_setup(&config, &done), 0, NULL);
	EXPECT(isolator_rt_undo(done), 0, NULL);
	EXPECT(isolator_rt_undo(NULL), 0, NULL);

	EXPECT(isolator_monitor_create("a b", 1000000, &monitor), -EINVAL, "give 1 to 32 letters, digits, '-', '_' and '.'");
	EXPECT(isolator_monitor_create(NULL, 1000000, &monitor), -EINVAL, "a pointer is NULL");
	EXPECT(isolator_monitor_create("a", 999, &monitor), -EINVAL, "give one from 1 us to 1 h");
	EXPECT(isolator_monitor_fd(NULL), -EINVAL, NULL);
	isolator_monitor_begin(NULL, 0);
	isolator_monitor_mark(NULL);
	isolator_monitor_end(NULL);
	EXPECT(isolator_reader_attach(getpid(), NULL, &reader), -ENOENT, "it has no monitored loop; have it link libisolator");
	EXPECT(isolator_reader_attach(getpid(), NULL, NULL), -EINVAL, "a pointer is NULL");
	EXPECT(isolator_reader_attach_fd(file, &reader), -EINVAL, "it is no memory of a program");
	EXPECT(isolator_reader_attach_fd(-1, &reader), -EBADF, "give an open descriptor");
	EXPECT(isolator_monitor_create("a", 1000000, &monitor), 0, NULL);
	EXPECT(isolator_monitor_create("b", 1000000, &other), 0, NULL);
	EXPECT(isolator_reader_attach(getpid(), NULL, &reader), -EINVAL, "it has several such loops; name one of a, b");
	EXPECT(isolator_reader_attach(getpid(), "c", &reader), -ENOENT, "it has no loop 'c'; name one of a, b");
	EXPECT(isolator_reader_attach(getpid(), "b", &reader), 0, NULL);
	EXPECT(isolator_reader_attach_fd(isolator_monitor_fd(other), &another_reader), -EBUSY, "some process reads it already");
	EXPECT(isolator_reader_poll(reader, NULL, NULL), -EINVAL, "a pointer is NULL");
	isolator_monitor_end(other);
	EXPECT(isolator_reader_poll(reader, cycle, NULL), 0, NULL);
	isolator_monitor_begin(other, UINT64_MAX);
	isolator_monitor_end(other);
	EXPECT(isolator_reader_poll(reader, cycle, NULL), -EPROTO, "give begin the time of CLOCK_MONOTONIC");
	isolator_monitor_close(other);
	EXPECT(isolator_reader_poll(reader, cycle, NULL), -EPIPE, "it has ended");
	isolator_reader_close(reader);
	isolator_monitor_close(monitor);

	EXPECT(isolator_clock_calibrate(NULL), -EINVAL, "a pointer is NULL");
	EXPECT(isolator_session_start(0, NULL), -EINVAL, "a pointer is NULL");
	EXPECT(isolator_session_start(~0u, &session), -EINVAL, "this version does not know the flags 0xfffefff0");
	EXPECT(isolator_session_start(1u << 31, &session), -EINVAL, "this version does not know the flags 0x80000000");
	if (access("/dev/isolator", F_OK))
		EXPECT(isolator_session_start(0, &session), -ENOSYS, "boot a kernel with the kernel part");
	EXPECT(isolator_session_tick(NULL, 0), -EINVAL, "a pointer is NULL");
	EXPECT(isolator_session_pending(NULL), 0, NULL);
	EXPECT(isolator_session_stop(NULL), 0, NULL);
	EXPECT(strcmp(isolator_reason_text(5), "the thread may run on more than one CPU"), 0, NULL);
	close(file);
	return wrong;
}
