/* SPDX-License-Identifier: GPL-2.0-only */
/* The plugin's arguments, `name=value` each. Whatever is not understood is an error: a run must not measure less than was asked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scope.h"

/* Reads a number and steps over it; only digits, no sign and no blank. */
static bool number(const char **text, int base, uint64_t *value)
{
	const char *digits = *text;
	char *end;
	if (base == 16) {
		if (strncmp(digits, "0x", 2))
			return false;
		digits += 2;
	}
	if (!strchr("0123456789", *digits) && !(base == 16 && strchr("abcdefABCDEF", *digits)))
		return false;
	if (!*digits)
		return false;
	errno = 0;
	*value = strtoull(digits, &end, base);
	*text = end;
	return !errno;
}

static bool read_cpus(struct arguments *arguments, const char *value, unsigned cpus, char *error)
{
	uint64_t first, last;
	const char *at = value;
	bool good = number(&at, 10, &first);
	last = first;
	if (good && *at == '-') {
		at++;
		good = number(&at, 10, &last);
	}
	if (!good || *at || last < first) {
		snprintf(error, ERROR_BYTES, "cpus=%s: give a CPU or a range: cpus=1 or cpus=1-3", value);
		return false;
	}
	if (last >= cpus) {
		snprintf(error, ERROR_BYTES, "cpus=%s: the guest has CPUs 0 to %u", value, cpus - 1);
		return false;
	}
	arguments->first_cpu = first;
	arguments->last_cpu = last;
	return true;
}

static bool read_lines(struct arguments *arguments, const char *value, char *error)
{
	uint64_t lines;
	const char *at = value;
	if (!number(&at, 10, &lines) || *at || lines > 10000000) {
		snprintf(error, ERROR_BYTES, "lines=%s: give a number from 0 to 10000000", value);
		return false;
	}
	arguments->lines = lines;
	return true;
}

static bool read_watch(struct arguments *arguments, const char *value, char *error)
{
	uint64_t first, length;
	const char *at = value + 5;
	bool physical = !strncmp(value, "phys:", 5);
	bool good = (physical || !strncmp(value, "virt:", 5)) && number(&at, 16, &first) && *at++ == ':';
	if (good) {
		const char *digits = at;
		good = number(&at, 16, &length) || (at = digits, number(&at, 10, &length));
	}
	if (!good || *at || !length || first + (length - 1) < first) {
		snprintf(error, ERROR_BYTES, "watch=%s: give virt:0xADDRESS:LENGTH or phys:0xADDRESS:LENGTH", value);
		return false;
	}
	if (arguments->watches == WATCHES) {
		snprintf(error, ERROR_BYTES, "watch=%s: at most %d can be given", value, WATCHES);
		return false;
	}
	arguments->watch[arguments->watches++] = (struct watch){ physical, first, first + (length - 1) };
	return true;
}

static bool read_response(struct arguments *arguments, const char *value, char *error)
{
	uint64_t input, output;
	const char *at = value;
	bool good = number(&at, 10, &input) && *at++ == ':' && number(&at, 10, &output) && !*at;
	good = good && input >= 1 && input <= WATCHES && output >= 1 && output <= WATCHES && input != output;
	if (!good) {
		snprintf(error, ERROR_BYTES, "response=%s: give two watches by number, INPUT:OUTPUT, as 1:2", value);
		return false;
	}
	arguments->input = input;
	arguments->output = output;
	return true;
}

static const char *value_of(const char *argument, const char *name)
{
	size_t length = strlen(name);
	return strncmp(argument, name, length) || argument[length] != '=' ? NULL : argument + length + 1;
}

static bool read_one(struct arguments *arguments, const char *argument, unsigned cpus, char *error)
{
	const char *value;
	if ((value = value_of(argument, "cpus")))
		return read_cpus(arguments, value, cpus, error);
	if ((value = value_of(argument, "lines")))
		return read_lines(arguments, value, error);
	if ((value = value_of(argument, "watch")))
		return read_watch(arguments, value, error);
	if ((value = value_of(argument, "response")))
		return read_response(arguments, value, error);
	if ((value = value_of(argument, "out")) && *value)
		arguments->out = value;
	else if ((value = value_of(argument, "symbols")) && *value)
		arguments->symbols = value;
	else {
		snprintf(error, ERROR_BYTES, "%s: not an argument; known: out symbols cpus lines watch response", argument);
		return false;
	}
	return true;
}

bool arguments_read(struct arguments *arguments, unsigned cpus, int argc, char **argv, char *error)
{
	*arguments = (struct arguments){ .last_cpu = cpus - 1, .lines = 20000 };
	for (int i = 0; i < argc; i++)
		if (!read_one(arguments, argv[i], cpus, error))
			return false;
	if (!arguments->out) {
		snprintf(error, ERROR_BYTES, "nowhere to write; give out=FILE");
		return false;
	}
	if (arguments->input > arguments->watches || arguments->output > arguments->watches) {
		snprintf(error, ERROR_BYTES, "response=%u:%u: there are %u watches; give a watch= for each",
			 arguments->input, arguments->output, arguments->watches);
		return false;
	}
	return true;
}
