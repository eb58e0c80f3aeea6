/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Drives the plugin with a fake QEMU and compares what it writes, line by line. Each test is a process of its own, as
 * each plugin is. Host times are written as T. All tests are made of the same few steps, which
 * one file has, hence its length.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_qemu.h"
#include "scope.h"

#define USER 0x401000
#define KERNEL 0xffffffff81000000
#define BEGIN_X86 { .bytes = "\x0f\x1f\x80\x01\x00\x53\x49", .size = 7 }
#define END_X86 { .bytes = "\x0f\x1f\x80\x02\x00\x53\x49", .size = 7 }
#define NOTE_X86 { .bytes = "\x0f\x1f\x80\xff\x00\x53\x49", .size = 7 }
#define PLAIN { 0 }
#define insn(...) ((struct qemu_plugin_insn)__VA_ARGS__)

static char folder[] = "/tmp/scope-unit.XXXXXX";
static char out[64], symbols_path[64], error_path[64];
static unsigned failed;

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
}

static char *read_file(const char *path)
{
	static char text[1 << 16];
	FILE *file = fopen(path, "r");
	size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[length] = '\0';
	if (file)
		fclose(file);
	return text;
}

/* Loads the plugin with the words given and out=, symbols= where they do not say so themselves. */
static int install(const char *words)
{
	static char copy[1024], out_word[80], symbols_word[90];
	char *argv[32], *rest = copy, *word;
	int argc = 0;
	snprintf(out_word, sizeof(out_word), "out=%s", out);
	snprintf(symbols_word, sizeof(symbols_word), "symbols=%s", symbols_path);
	if (!strstr(words, "out="))
		argv[argc++] = out_word;
	if (!strstr(words, "symbols="))
		argv[argc++] = symbols_word;
	snprintf(copy, sizeof(copy), "%s", words);
	while ((word = strsep(&rest, " ")))
		if (*word)
			argv[argc++] = word;
	return fake_install(argc, argv);
}

static void user(unsigned cpu, size_t count, struct qemu_plugin_insn last)
{
	fake_run(cpu, fake_block(USER, count, last));
}

static void kernel(unsigned cpu, uint64_t offset, size_t count)
{
	fake_run(cpu, fake_block(KERNEL + offset, count, insn(PLAIN)));
}

/* What was written, with host times hidden, must be the lines given. */
static void expect(const char *what, const char *wanted)
{
	char *text = read_file(out), *at = text;
	while ((at = strstr(at, "\"at_ns\":"))) {
		size_t digits = strspn(at += 8, "0123456789");
		*at = 'T';
		memmove(at + 1, at + digits, strlen(at + digits) + 1);
	}
	if (!strcmp(text, wanted))
		return;
	fprintf(stderr, "FAILED: %s\n--- wanted\n%s--- written\n%s", what, wanted, text);
	_exit(1);
}

#define HEAD(api) \
	"{\"scope\":1,\"target\":\"x86_64\",\"qemu_api\":" #api ",\"smp\":2,\"first_cpu\":0,\"last_cpu\":1,\"lines\":20000," \
	"\"symbols\":4,\"watches\":0}\n"
#define EXIT "{\"exit\":1}\n"

static void a_system_call_is_one_excursion(void)
{
	install("");
	user(1, 3, insn(BEGIN_X86));
	user(1, 4, insn(PLAIN));
	kernel(1, 0, 10);      /* entry */
	kernel(1, 0x100, 20);  /* a function */
	kernel(1, 0x104, 5);   /* further in it */
	kernel(1, 0x200, 7);   /* another */
	kernel(1, 0x100, 20);  /* the first again */
	user(1, 2, insn(PLAIN));
	user(1, 3, insn(END_X86));
	fake_exit();
	expect(__func__,
	       HEAD(1) "{\"begin\":1,\"cpu\":1,\"window\":1,\"at\":2,\"at_ns\":T}\n"
		       "{\"cpu\":1,\"window\":1,\"n\":1,\"entry\":\"entry\",\"offset\":0,\"instructions\":62,"
		       "\"user_before\":5,\"at\":7,\"at_ns\":T,\"path\":[[\"first\",2],[\"second\",1]],\"beyond\":0}\n"
		       "{\"summary\":1,\"cpu\":1,\"window\":1,\"entry\":\"entry\",\"offset\":0,\"count\":1,"
		       "\"instructions\":62,\"max\":62}\n"
		       "{\"end\":1,\"cpu\":1,\"window\":1,\"closed_by\":\"end\",\"at\":73,\"at_ns\":T,\"excursions\":1,"
		       "\"kernel_instructions\":62,\"max_kernel_instructions\":62,\"user_instructions\":9,"
		       "\"lines_dropped\":0,\"events_dropped\":0,\"open\":0,\"open_instructions\":0}\n" EXIT);
}

static void an_instruction_left_to_the_next_block_counts_once(void)
{
	install("lines=0");
	user(1, 1, insn(BEGIN_X86));
	kernel(1, 0, 10);
	kernel(1, 0xff0, 10); /* its last instruction, at 0xff9, is the next block's first */
	kernel(1, 0xff9, 3);
	kernel(1, 0xfe0, 10); /* the same, further from the end of the page: it runs twice */
	kernel(1, 0xfe9, 3);
	fake_run(1, fake_block(KERNEL + 0x1ff0, 10, insn({ .bytes = "\xf3\xa4", .size = 2 }))); /* rep movsb */
	kernel(1, 0x1ff9, 3);
	user(1, 1, insn(END_X86));
	fake_exit();
	if (!strstr(read_file(out), "\"kernel_instructions\":48,")) {
		fprintf(stderr, "FAILED: %s\n%s", __func__, read_file(out));
		_exit(1);
	}
}

/* Iretq, and a block at it. */
#define IRET { .bytes = "\x48\xcf", .size = 2 }

static void an_interrupt_that_waited_for_the_return_is_an_excursion_of_its_own(void)
{
	write_file(symbols_path, "ffffffff81000000 asm_sysvec_a\nffffffff81000100 first\nffffffff81000400 asm_sysvec_b\n");
	install("lines=0");
	user(1, 1, insn(BEGIN_X86));
	kernel(1, 0, 10);
	fake_run(1, fake_block(KERNEL + 0x180, 3, insn(IRET)));
	kernel(1, 0x400, 10); /* taken where the return led to */
	kernel(1, 0, 10);     /* taken within the kernel */
	fake_run(1, fake_block(KERNEL + 0x180, 3, insn(IRET)));
	kernel(1, 0x404, 5); /* back in the kernel */
	user(1, 1, insn(END_X86));
	fake_exit();
	expect(__func__,
	       "{\"scope\":1,\"target\":\"x86_64\",\"qemu_api\":1,\"smp\":2,\"first_cpu\":0,\"last_cpu\":1,\"lines\":0,"
	       "\"symbols\":3,\"watches\":0}\n"
	       "{\"begin\":1,\"cpu\":1,\"window\":1,\"at\":0,\"at_ns\":T}\n"
	       "{\"summary\":1,\"cpu\":1,\"window\":1,\"entry\":\"asm_sysvec_a\",\"offset\":0,\"count\":1,"
	       "\"instructions\":13,\"max\":13}\n"
	       "{\"summary\":1,\"cpu\":1,\"window\":1,\"entry\":\"asm_sysvec_b\",\"offset\":0,\"count\":1,"
	       "\"instructions\":28,\"max\":28}\n"
	       "{\"end\":1,\"cpu\":1,\"window\":1,\"closed_by\":\"end\",\"at\":42,\"at_ns\":T,\"excursions\":2,"
	       "\"kernel_instructions\":41,\"max_kernel_instructions\":28,\"user_instructions\":1,"
	       "\"lines_dropped\":2,\"events_dropped\":0,\"open\":0,\"open_instructions\":0}\n" EXIT);
}

static void what_happens_outside_of_a_window_is_not_recorded(void)
{
	install("");
	user(1, 3, insn(PLAIN));
	kernel(1, 0, 10);
	user(1, 3, insn(END_X86));
	kernel(1, 0, 10);
	fake_exit();
	expect(__func__, HEAD(1) "{\"stray_end\":1,\"cpu\":1,\"window\":0,\"at\":15,\"at_ns\":T}\n" EXIT);
}

static void a_window_open_at_exit_is_written_with_its_open_excursion(void)
{
	install("");
	user(0, 1, insn(BEGIN_X86));
	kernel(0, 0x40, 10);
	kernel(0, 0x100, 10);
	fake_exit();
	expect(__func__,
	       HEAD(1) "{\"begin\":1,\"cpu\":0,\"window\":1,\"at\":0,\"at_ns\":T}\n"
		       "{\"end\":1,\"cpu\":0,\"window\":1,\"closed_by\":\"exit\",\"at\":21,\"at_ns\":T,\"excursions\":0,"
		       "\"kernel_instructions\":0,\"max_kernel_instructions\":0,\"user_instructions\":1,"
		       "\"lines_dropped\":0,\"events_dropped\":0,\"open\":1,\"open_instructions\":20}\n" EXIT);
}

static void a_second_begin_closes_the_window_and_opens_the_next(void)
{
	install("cpus=1 lines=0");
	user(1, 1, insn(BEGIN_X86));
	kernel(1, 0x40, 10);
	user(1, 1, insn(BEGIN_X86));
	user(1, 1, insn(END_X86));
	user(0, 1, insn(BEGIN_X86)); /* not a CPU that was asked for */
	fake_exit();
	expect(__func__,
	       "{\"scope\":1,\"target\":\"x86_64\",\"qemu_api\":1,\"smp\":2,\"first_cpu\":1,\"last_cpu\":1,\"lines\":0,"
	       "\"symbols\":4,\"watches\":0}\n"
	       "{\"begin\":1,\"cpu\":1,\"window\":1,\"at\":0,\"at_ns\":T}\n"
	       "{\"summary\":1,\"cpu\":1,\"window\":1,\"entry\":\"entry\",\"offset\":64,\"count\":1,"
	       "\"instructions\":10,\"max\":10}\n"
	       "{\"end\":1,\"cpu\":1,\"window\":1,\"closed_by\":\"begin\",\"at\":11,\"at_ns\":T,\"excursions\":1,"
	       "\"kernel_instructions\":10,\"max_kernel_instructions\":10,\"user_instructions\":1,"
	       "\"lines_dropped\":1,\"events_dropped\":0,\"open\":0,\"open_instructions\":0}\n"
	       "{\"begin\":1,\"cpu\":1,\"window\":2,\"at\":11,\"at_ns\":T}\n"
	       "{\"end\":1,\"cpu\":1,\"window\":2,\"closed_by\":\"end\",\"at\":12,\"at_ns\":T,\"excursions\":0,"
	       "\"kernel_instructions\":0,\"max_kernel_instructions\":0,\"user_instructions\":1,"
	       "\"lines_dropped\":0,\"events_dropped\":0,\"open\":0,\"open_instructions\":0}\n" EXIT);
}

static void lines_beyond_the_limit_are_counted_and_summed(void)
{
	install("cpus=1 lines=1");
	user(1, 1, insn(BEGIN_X86));
	for (int i = 0; i < 3; i++) {
		kernel(1, 0, 10 + i);
		user(1, 1, insn(NOTE_X86));
	}
	user(1, 1, insn(END_X86));
	fake_exit();
	expect(__func__,
	       "{\"scope\":1,\"target\":\"x86_64\",\"qemu_api\":1,\"smp\":2,\"first_cpu\":1,\"last_cpu\":1,\"lines\":1,"
	       "\"symbols\":4,\"watches\":0}\n"
	       "{\"begin\":1,\"cpu\":1,\"window\":1,\"at\":0,\"at_ns\":T}\n"
	       "{\"cpu\":1,\"window\":1,\"n\":1,\"entry\":\"entry\",\"offset\":0,\"instructions\":10,"
	       "\"user_before\":1,\"at\":1,\"at_ns\":T,\"path\":[],\"beyond\":0}\n"
	       "{\"note\":255,\"cpu\":1,\"window\":1,\"at\":11,\"at_ns\":T}\n"
	       "{\"summary\":1,\"cpu\":1,\"window\":1,\"entry\":\"entry\",\"offset\":0,\"count\":3,"
	       "\"instructions\":33,\"max\":12}\n"
	       "{\"end\":1,\"cpu\":1,\"window\":1,\"closed_by\":\"end\",\"at\":37,\"at_ns\":T,\"excursions\":3,"
	       "\"kernel_instructions\":33,\"max_kernel_instructions\":12,\"user_instructions\":4,"
	       "\"lines_dropped\":2,\"events_dropped\":2,\"open\":0,\"open_instructions\":0}\n" EXIT);
}

/* More functions than a path holds: those beyond are counted. Without symbols, entries are numbers. */
static void a_path_is_bounded(void)
{
	char text[32 * (PATH_FUNCTIONS + 3)] = "";
	for (int i = 0; i < PATH_FUNCTIONS + 3; i++)
		sprintf(text + strlen(text), "%llx f%d\n", KERNEL + 0x1000ull + 16 * i, i);
	write_file(symbols_path, text);
	install("");
	user(1, 1, insn(BEGIN_X86));
	kernel(1, 0, 1); /* below every symbol */
	for (int i = 0; i < PATH_FUNCTIONS + 3; i++)
		kernel(1, 0x1000 + 16 * i, 1);
	user(1, 1, insn(END_X86));
	fake_exit();
	const char *text_out = read_file(out);
	if (!strstr(text_out, "[\"f255\",1]],\"beyond\":3}") || !strstr(text_out, "\"entry\":\"0xffffffff81000000\",\"offset\":0"))
		expect(__func__, "a path of f0 to f255, 3 beyond\n");
}

static void entries_beyond_the_table_are_summed_as_other(void)
{
	install("lines=0");
	user(1, 1, insn(BEGIN_X86));
	for (int i = 0; i < SUMMARY_ENTRIES + 2; i++) {
		kernel(1, 0x1000 + 8 * i, 1 + i);
		user(1, 1, insn(PLAIN));
	}
	user(1, 1, insn(END_X86));
	fake_exit();
	if (!strstr(read_file(out), "\"entry\":\"(other)\",\"offset\":0,\"count\":2,\"instructions\":259,\"max\":130}"))
		expect(__func__, "two entries as (other)\n");
}

static void stores_are_stamped_where_they_happen(void)
{
	install("watch=virt:0x1000:8 watch=phys:0xfee00000:4096");
	fake_run(0, fake_block(USER, 4, insn({ .stores_to = 0x1006 })));
	fake_run(0, fake_block(USER, 4, insn({ .stores_to = 0x1008 })));
	fake_run(1, fake_block(KERNEL, 2, insn({ .stores_to = 0xffff8880fee000b0 })));
	fake_exit();
	expect(__func__,
	       "{\"scope\":1,\"target\":\"x86_64\",\"qemu_api\":1,\"smp\":2,\"first_cpu\":0,\"last_cpu\":1,\"lines\":20000,"
	       "\"symbols\":4,\"watches\":2}\n"
	       "{\"store\":1,\"cpu\":0,\"window\":0,\"at\":3,\"at_ns\":T,\"watch\":1,\"virt\":\"0x1006\",\"size\":4,"
	       "\"value\":\"0x49535953\"}\n"
	       "{\"store\":1,\"cpu\":1,\"window\":0,\"at\":1,\"at_ns\":T,\"watch\":2,\"virt\":\"0xffff8880fee000b0\","
	       "\"phys\":\"0xfee000b0\",\"io\":true,\"size\":4,\"value\":\"0x49535953\"}\n" EXIT);
}

static void a_physical_watch_tells_pages_apart(void)
{
	install("watch=phys:0x1010:8");
	fake_run(0, fake_block(KERNEL, 1, insn({ .stores_to = 0xffff888000002010 })));
	fake_run(0, fake_block(KERNEL, 1, insn({ .stores_to = 0xffff888000001018 })));
	fake_run(0, fake_block(KERNEL, 1, insn({ .stores_to = 0xffff88800000100c })));
	fake_run(0, fake_block(KERNEL, 1, insn({ .stores_to = 0xffff88800000100d })));
	fake_exit();
	expect(__func__,
	       "{\"scope\":1,\"target\":\"x86_64\",\"qemu_api\":1,\"smp\":2,\"first_cpu\":0,\"last_cpu\":1,\"lines\":20000,"
	       "\"symbols\":4,\"watches\":1}\n"
	       "{\"store\":1,\"cpu\":0,\"window\":0,\"at\":3,\"at_ns\":T,\"watch\":1,\"virt\":\"0xffff88800000100d\","
	       "\"phys\":\"0x100d\",\"io\":false,\"size\":4,\"value\":\"0x49535953\"}\n" EXIT);
}

#define INPUT 0x1000
#define OUTPUT 0x1080
#define WATCHED "cpus=1 watch=virt:0x1000:4 watch=virt:0x1080:4 response=1:2"
#define WATCHED_HEAD \
	"{\"scope\":1,\"target\":\"x86_64\",\"qemu_api\":1,\"smp\":2,\"first_cpu\":1,\"last_cpu\":1,\"lines\":20000," \
	"\"symbols\":4,\"watches\":2}\n{\"begin\":1,\"cpu\":1,\"window\":1,\"at\":0,\"at_ns\":T}\n"
#define NONE "{\"count\":0,\"least\":0,\"most\":0,\"counts\":[]}"

static void edge(void)
{
	fake_run(0, fake_block(USER, 3, insn({ .stores_to = INPUT })));
}

/* Steps of the CPU that answers: the last instruction of so many polls of the input, or drives the output. */
static void poll_input(size_t count)
{
	fake_run(1, fake_block(USER + 0x100, count, insn({ .loads_from = INPUT })));
}

static void answer(size_t count)
{
	fake_run(1, fake_block(USER + 0x200, count, insn({ .stores_to = OUTPUT })));
}

/* What the record says of responses alone, behind its head. */
static void expect_responses(const char *what, const char *wanted)
{
	char lines[1024], *text = read_file(out), *from = strstr(text, "{\"response\"");
	snprintf(lines, sizeof(lines), "%.*s", from ? (int)strcspn(from, "\n") + 1 : 0, from ? from : "");
	write_file(out, lines);
	expect(what, wanted);
}

static void a_response_lies_between_two_polls_and_the_answer(void)
{
	install(WATCHED);
	user(1, 1, insn(BEGIN_X86));
	poll_input(5);
	edge();
	poll_input(6);
	answer(3); /* 3 after the poll that saw it, 9 after the one that did not */
	poll_input(6);
	poll_input(6);
	edge();
	poll_input(6);
	answer(4);
	user(1, 1, insn(END_X86));
	fake_exit();
	expect(__func__,
	       WATCHED_HEAD
	       "{\"response\":1,\"cpu\":1,\"window\":1,\"edges\":2,\"doubled\":0,\"blind\":0,"
	       "\"quiet\":{\"count\":2,\"least\":3,\"most\":10,\"counts\":[[9,1],[10,1]]},\"interrupted\":" NONE "}\n"
	       "{\"end\":1,\"cpu\":1,\"window\":1,\"closed_by\":\"end\",\"at\":37,\"at_ns\":T,\"excursions\":0,"
	       "\"kernel_instructions\":0,\"max_kernel_instructions\":0,\"user_instructions\":37,"
	       "\"lines_dropped\":0,\"events_dropped\":0,\"open\":0,\"open_instructions\":0}\n" EXIT);
}

static void an_answer_that_an_excursion_delayed_is_counted_apart(void)
{
	install(WATCHED);
	user(1, 1, insn(BEGIN_X86));
	poll_input(5);
	kernel(1, 0, 200); /* over before the last poll that saw no edge */
	poll_input(5);
	edge();
	poll_input(6);
	answer(3);
	kernel(1, 0, 200);
	kernel(1, 0x100, 200);
	kernel(1, 0x100, 200);
	edge();
	poll_input(6);
	answer(3);
	poll_input(6);
	edge();
	poll_input(6);
	kernel(1, 0, 200);
	answer(3);
	user(1, 1, insn(END_X86));
	fake_exit();
	/* The second is 600 + 12 instructions: of the octave from 512 on. */
	expect_responses(__func__,
			 "{\"response\":1,\"cpu\":1,\"window\":1,\"edges\":3,\"doubled\":0,\"blind\":0,"
			 "\"quiet\":{\"count\":1,\"least\":3,\"most\":9,\"counts\":[[9,1]]},"
			 "\"interrupted\":{\"count\":2,\"least\":3,\"most\":612,\"counts\":[[209,1],[512,1]]}}\n");
}

static void edges_and_answers_that_have_no_other_are_counted(void)
{
	install(WATCHED);
	edge(); /* before the window */
	user(1, 1, insn(BEGIN_X86));
	answer(3); /* without a poll */
	poll_input(5);
	edge();
	edge(); /* each before the last was answered */
	edge();
	poll_input(5);
	answer(3);
	edge();
	answer(3); /* without a poll since the last */
	fake_run(0, fake_block(USER, 3, insn({ .stores_to = OUTPUT }))); /* not a CPU that was asked for */
	edge(); /* too late */
	user(1, 1, insn(END_X86));
	fake_exit();
	expect_responses(__func__,
			 "{\"response\":1,\"cpu\":1,\"window\":1,\"edges\":5,\"doubled\":2,\"blind\":2,"
			 "\"quiet\":{\"count\":1,\"least\":3,\"most\":8,\"counts\":[[8,1]]},\"interrupted\":" NONE "}\n");
}

static void a_long_response_falls_into_its_octave(void)
{
	install(WATCHED);
	for (int i = 0; i < 2; i++) {
		user(1, 1, insn(BEGIN_X86)); /* the second begins anew */
		poll_input(5);
		edge();
		for (int blocks = 0; blocks < 40; blocks++)
			kernel(1, 0, 100 * (i + 1));
		poll_input(1);
		answer(1);
	}
	user(1, 1, insn(END_X86));
	fake_exit();
	char *second = strstr(read_file(out), "\"window\":2,\"edges\"");
	if (!second || !strstr(second, "\"edges\":1,") || !strstr(read_file(out), "\"most\":4002,\"counts\":[[2048,1]]") ||
	    !strstr(second, "\"most\":8002,\"counts\":[[4096,1]]"))
		expect(__func__, "4002 from 2048 on; in the second window 8002 from 4096 on\n");
}

static void markers_count_in_user_code_only(void)
{
	install("");
	fake_run(1, fake_block(KERNEL, 4, insn(BEGIN_X86)));
	fake_exit();
	expect(__func__, HEAD(1) EXIT);
}

static void newer_interfaces_copy_instructions(void)
{
	fake_api = 6;
	install("");
	user(1, 1, insn(NOTE_X86));
	fake_exit();
	expect(__func__, HEAD(6) "{\"note\":255,\"cpu\":1,\"window\":0,\"at\":0,\"at_ns\":T}\n" EXIT);
}

static void arm64_has_its_own_marker(void)
{
	if (marker_code(TARGET_AARCH64, (const uint8_t *)"\x3f\x60\x8a\xd2", 4) != 1 ||
	    marker_code(TARGET_AARCH64, (const uint8_t *)"\xff\x7f\x8a\xd2", 4) != 255 ||
	    marker_code(TARGET_AARCH64, (const uint8_t *)"\x3e\x60\x8a\xd2", 4) != 0 ||
	    marker_code(TARGET_X86_64, (const uint8_t *)"\x0f\x1f\x80\x01\x01\x53\x49", 7) != 0)
		expect(__func__, "");
}

static void aliases_and_kallsyms_lines_are_understood(void)
{
	struct symbols symbols = { 0 };
	char error[ERROR_BYTES] = "";
	write_file(symbols_path, "ffffffff81000040 T __do_sys_getpid\n"
				 "ffffffff81000040 T __ia32_sys_getpid\n"
				 "ffffffff81000040 T __x64_sys_getpid\r\n"
				 "\n"
				 "ffffffffc0000000 t probe [module]\n"
				 "ffffffffc0000010 leave [module]\n"
				 "ffffffff81000000 _stext\n"
				 "ffffffff81000000 some_text_start\n"
				 "ffffffff81000000 real\n"
				 "0000000000000000 A fixed_percpu_data");
	static const struct symbol wanted[] = { { KERNEL, "real" },
						{ KERNEL + 0x40, "__x64_sys_getpid" },
						{ 0xffffffffc0000000, "probe" },
						{ 0xffffffffc0000010, "leave" } };
	bool good = symbols_read(&symbols, symbols_path, error) && symbols.count == 4;
	for (int i = 0; good && i < 4; i++)
		good = symbols.table[i].address == wanted[i].address && !strcmp(symbols.table[i].name, wanted[i].name);
	good = good && symbols_find(&symbols, KERNEL - 1) == 0 && symbols_find(&symbols, KERNEL + 0x3f) == 1 &&
	       symbols_find(&symbols, UINT64_MAX) == 4;
	free(symbols.table);
	free(symbols.text);
	if (!good) {
		fprintf(stderr, "FAILED: %s %s\n", __func__, error);
		_exit(1);
	}
}

/* A wrong argument: one line, and QEMU does not start. */
static void refused(const char *words, const char *wanted)
{
	fflush(stderr);
	int kept = dup(2), file = open(error_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	dup2(file, 2);
	int answer = install(words);
	dup2(kept, 2);
	close(kept);
	close(file);
	if (answer && !strcmp(read_file(error_path), wanted))
		return;
	fprintf(stderr, "FAILED: %s\n--- wanted\n%s--- said\n%s", words, wanted, read_file(error_path));
	_exit(1);
}

static void what_is_not_understood_is_refused(void)
{
	static const char *const watches = "watch=virt:0x1:1 watch=virt:0x1:1 watch=virt:0x1:1 watch=virt:0x1:1 "
					   "watch=virt:0x1:1 watch=virt:0x1:1 watch=virt:0x1:1 watch=virt:0x1:1 ";
	char many[256];
	refused("depth=3", "scope: depth=3: not an argument; known: out symbols cpus lines watch response\n");
	refused("out=", "scope: out=: not an argument; known: out symbols cpus lines watch response\n");
	refused("cpus=", "scope: cpus=: give a CPU or a range: cpus=1 or cpus=1-3\n");
	refused("cpus=1-", "scope: cpus=1-: give a CPU or a range: cpus=1 or cpus=1-3\n");
	refused("cpus=1-0", "scope: cpus=1-0: give a CPU or a range: cpus=1 or cpus=1-3\n");
	refused("cpus=-1", "scope: cpus=-1: give a CPU or a range: cpus=1 or cpus=1-3\n");
	refused("cpus=1-2", "scope: cpus=1-2: the guest has CPUs 0 to 1\n");
	refused("lines=many", "scope: lines=many: give a number from 0 to 10000000\n");
	refused("lines=10000001", "scope: lines=10000001: give a number from 0 to 10000000\n");
#define WATCH(value) "scope: watch=" value ": give virt:0xADDRESS:LENGTH or phys:0xADDRESS:LENGTH\n"
	refused("watch=0x1000:8", WATCH("0x1000:8"));
	refused("watch=virt", WATCH("virt"));
	refused("watch=virt:", WATCH("virt:"));
	refused("watch=virt:1000:8", WATCH("virt:1000:8"));
	refused("watch=virt:0x1000", WATCH("virt:0x1000"));
	refused("watch=virt:0x1000:0", WATCH("virt:0x1000:0"));
	refused("watch=virt:0xffffffffffffffff:2", WATCH("virt:0xffffffffffffffff:2"));
	refused("watch=phys:0x1000:8:", WATCH("phys:0x1000:8:"));
	snprintf(many, sizeof(many), "%swatch=virt:0x9:1", watches);
	refused(many, "scope: watch=virt:0x9:1: at most 8 can be given\n");
#define RESPONSE(value) "scope: response=" value ": give two watches by number, INPUT:OUTPUT, as 1:2\n"
	refused("response=", RESPONSE(""));
	refused("response=1", RESPONSE("1"));
	refused("response=1:1", RESPONSE("1:1"));
	refused("response=0:1", RESPONSE("0:1"));
	refused("response=1:9", RESPONSE("1:9"));
	refused("response=1:2:3", RESPONSE("1:2:3"));
	refused("watch=virt:0x1:1 response=1:2", "scope: response=1:2: there are 1 watches; give a watch= for each\n");
	refused("out=/nowhere/record", "scope: cannot write /nowhere/record: No such file or directory\n");
	refused("symbols=/nowhere/symbols", "scope: cannot open symbols /nowhere/symbols: No such file or directory\n");
}

static void symbols_that_tell_nothing_are_refused(void)
{
	char wanted[256];
	write_file(symbols_path, "0000000000000000 T entry\n");
	snprintf(wanted, sizeof(wanted), "scope: %s: no kernel address in it; read /proc/kallsyms as root\n", symbols_path);
	refused("", wanted);
	static const char *const broken[] = { "hello world", "ffffffff81000000", "ffffffff81000000 a\"b", "-1 a", " 1 a",
					      "ffffffffffffffff1 a", "12x a" };
	snprintf(wanted, sizeof(wanted), "scope: %s:2: not a symbol; lines are `hexaddr name`\n", symbols_path);
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
		char text[128];
		snprintf(text, sizeof(text), "ffffffff81000000 entry\n%s\n", broken[i]);
		write_file(symbols_path, text);
		refused("", wanted);
	}
}

static void unknown_machines_are_refused(void)
{
	fake_target = "riscv64";
	refused("", "scope: cannot look at riscv64; use qemu-system-x86_64 or qemu-system-aarch64\n");
	fake_target = "x86_64";
	fake_api = 7;
	refused("", "scope: this QEMU's plugin API is version 7; the scope knows 1 to 6\n");
}

static void test(const char *name, void (*body)(void))
{
	write_file(symbols_path, "ffffffff81000200 second\nffffffff81000000 entry\n"
				 "ffffffff81000100 first\nffffffff81000300 third\n");
	fflush(NULL);
	pid_t child = fork();
	if (!child) {
		body();
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	if (status) {
		failed++;
		fprintf(stderr, "FAILED: %s\n", name);
	} else {
		printf("ok %s\n", name);
	}
}

#define TEST(name) test(#name, name)

int main(void)
{
	if (!mkdtemp(folder))
		return 1;
	snprintf(out, sizeof(out), "%s/out", folder);
	snprintf(symbols_path, sizeof(symbols_path), "%s/symbols", folder);
	snprintf(error_path, sizeof(error_path), "%s/error", folder);
	TEST(a_system_call_is_one_excursion);
	TEST(an_instruction_left_to_the_next_block_counts_once);
	TEST(an_interrupt_that_waited_for_the_return_is_an_excursion_of_its_own);
	TEST(what_happens_outside_of_a_window_is_not_recorded);
	TEST(a_window_open_at_exit_is_written_with_its_open_excursion);
	TEST(a_second_begin_closes_the_window_and_opens_the_next);
	TEST(lines_beyond_the_limit_are_counted_and_summed);
	TEST(a_path_is_bounded);
	TEST(entries_beyond_the_table_are_summed_as_other);
	TEST(stores_are_stamped_where_they_happen);
	TEST(a_physical_watch_tells_pages_apart);
	TEST(a_response_lies_between_two_polls_and_the_answer);
	TEST(an_answer_that_an_excursion_delayed_is_counted_apart);
	TEST(edges_and_answers_that_have_no_other_are_counted);
	TEST(a_long_response_falls_into_its_octave);
	TEST(markers_count_in_user_code_only);
	TEST(newer_interfaces_copy_instructions);
	TEST(arm64_has_its_own_marker);
	TEST(aliases_and_kallsyms_lines_are_understood);
	TEST(what_is_not_understood_is_refused);
	TEST(symbols_that_tell_nothing_are_refused);
	TEST(unknown_machines_are_refused);
	unlink(out);
	unlink(symbols_path);
	unlink(error_path);
	rmdir(folder);
	return failed != 0;
}
