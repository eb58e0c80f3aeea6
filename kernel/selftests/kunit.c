// SPDX-License-Identifier: GPL-2.0-only
/*
 * The results of the isolator's KUnit tests, which ran at boot.
 *
 * Why: the kernel only prints them to its log, and boots on if one fails.
 *
 * How to read: a line per KUnit test. All is skipped on a kernel without
 * CONFIG_ISOLATOR_KUNIT_TEST, or without kunit.enable=1 on the boot line.
 */
#include "selftest.h"

#include <sys/mount.h>

#define DEBUG	"/sys/kernel/debug"
#define RESULTS	DEBUG "/kunit/%s/results"

/* One line: "ok 3 name", "not ok 3 name", with "# SKIP why" */
static void result_of(const char *suite, char *line)
{
	bool good = strncmp(line, "not ", 4);
	char *name, *why;

	line += good ? 0 : 4;
	if (strncmp(line, "ok ", 3))
		return;
	name = line + 3 + strspn(line + 3, "0123456789 -");
	why = strstr(name, " # SKIP");
	if (why) {
		*why = '\0';
		ok_or_skipped(SKIPPED, name, why + strlen(" # SKIP"));
	} else {
		ok(good, "%s: %s", suite, name);
	}
}

static void results_of(const char *suite)
{
	static char text[1 << 16];
	char path[80], *line, *rest = text;

	snprintf(path, sizeof(path), RESULTS, suite);
	if (read_file(path, text, sizeof(text)) <= 0)
		skip_all("no %s", path);
	while ((line = strsep(&rest, "\n"))) {
		/* The suite's own line is not indented. */
		if (!strncmp(line, "    ", 4))
			result_of(suite, line + 4);
	}
}

int main(void)
{
	/* It may be mounted already. */
	mount("debugfs", DEBUG, "debugfs", 0, NULL);
	results_of("isolator");
	results_of("isolator_owner");
	results_of("isolator_messages");
	if (!tap_number)
		ok(false, "a KUnit test ran");
	return finish();
}
