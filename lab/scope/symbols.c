/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest kernel's symbols: lines `hexaddr name`, or as /proc/kallsyms has them (`hexaddr type name [module]`), in
 * any order. Kept: names in the upper half of the address space. Of several names at one address the most telling is
 * taken: a system call's, then fewest leading underscores, then not a linker's boundary, then the first in the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scope.h"

static char *read_whole(const char *path, char *error)
{
	FILE *file = fopen(path, "r");
	if (!file) {
		snprintf(error, ERROR_BYTES, "cannot open symbols %s: %s", path, strerror(errno));
		return NULL;
	}
	size_t used = 0, room = 1 << 20;
	char *text = malloc(room);
	while (text) {
		used += fread(text + used, 1, room - used - 1, file);
		if (used < room - 1)
			break;
		char *larger = realloc(text, room *= 2);
		if (!larger)
			free(text);
		text = larger;
	}
	if (!text || ferror(file)) {
		snprintf(error, ERROR_BYTES, "cannot read symbols %s: %s", path, strerror(errno));
		free(text);
		text = NULL;
	} else {
		text[used] = '\0';
	}
	fclose(file);
	return text;
}

/* A name that can stand in JSON as it is. */
static bool plain(const char *name)
{
	if (!*name)
		return false;
	for (; *name; name++)
		if (*name <= ' ' || *name > '~' || *name == '"' || *name == '\\')
			return false;
	return true;
}

static bool parse_line(char *line, struct symbol *symbol)
{
	char *end, *rest = NULL;
	if (!strchr("0123456789abcdefABCDEF", *line))
		return false;
	errno = 0;
	symbol->address = strtoull(line, &end, 16);
	if (errno || end == line || (*end != ' ' && *end != '\t'))
		return false;
	char *name = strtok_r(end, " \t\r", &rest);
	char *second = strtok_r(NULL, " \t\r", &rest);
	if (name && second && !name[1] && *second != '[')
		name = second;
	symbol->name = name;
	return name && plain(name);
}

static int by_address(const void *left, const void *right)
{
	const struct symbol *a = left, *b = right;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	/* Names lie in one text: earlier in memory is earlier in the file. */
	return a->name < b->name ? -1 : a->name > b->name;
}

static bool ends_with(const char *name, const char *end)
{
	size_t a = strlen(name), b = strlen(end);
	return a >= b && !strcmp(name + a - b, end);
}

/* The smaller, the more telling. */
static unsigned obscurity(const char *name)
{
	if (!strncmp(name, "__x64_sys_", 10) || !strncmp(name, "__arm64_sys_", 12))
		return 0;
	unsigned underscores = strspn(name, "_");
	bool boundary = ends_with(name, "_start") || ends_with(name, "_end") || ends_with(name, "_begin");
	return 1 + 2 * underscores + boundary;
}

static void drop_aliases(struct symbols *symbols)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < symbols->count; i++) {
		const struct symbol *next = &symbols->table[i];
		struct symbol *last = kept ? &symbols->table[kept - 1] : NULL;
		if (!last || last->address != next->address)
			symbols->table[kept++] = *next;
		else if (obscurity(next->name) < obscurity(last->name))
			last->name = next->name;
	}
	symbols->count = kept;
}

bool symbols_read(struct symbols *symbols, const char *path, char *error)
{
	*symbols = (struct symbols){ .text = read_whole(path, error) };
	if (!symbols->text)
		return false;
	size_t lines = 1, number = 0;
	for (const char *at = symbols->text; (at = strchr(at, '\n')); at++)
		lines++;
	symbols->table = calloc(lines, sizeof(*symbols->table));
	if (!symbols->table) {
		snprintf(error, ERROR_BYTES, "cannot keep %zu symbols: out of memory", lines);
		return false;
	}
	char *rest = symbols->text, *line;
	while ((line = strsep(&rest, "\n"))) {
		struct symbol symbol;
		number++;
		if (line[strspn(line, " \t\r")] == '\0')
			continue;
		if (!parse_line(line, &symbol)) {
			snprintf(error, ERROR_BYTES, "%s:%zu: not a symbol; lines are `hexaddr name`", path, number);
			return false;
		}
		if (symbol.address >> 63)
			symbols->table[symbols->count++] = symbol;
	}
	if (!symbols->count) {
		snprintf(error, ERROR_BYTES, "%s: no kernel address in it; read /proc/kallsyms as root", path);
		return false;
	}
	qsort(symbols->table, symbols->count, sizeof(*symbols->table), by_address);
	drop_aliases(symbols);
	return true;
}

uint32_t symbols_find(const struct symbols *symbols, uint64_t address)
{
	uint32_t low = 0, high = symbols->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (symbols->table[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
