// SPDX-License-Identifier: MIT OR Apache-2.0
/* Another user of the machine, who has a folder and processes and changes them while root's verbs use them:
 *   hostile files FOLDER VICTIM   every entry of the folder is renamed, truncated, or a link to the victim or a pipe for a while
 *   hostile process NAMED         processes whose numbers come on standard output: they exec, set-uid programs too, end, trace one
 *                                 another, and map a program file that claims gigabytes of symbols and is a pipe under its name
 * Both go on until they are killed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pause_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* One of the entry's other lives; then it is put back, where that is still possible. */
static void change(const char *folder, const char *name, const char *victim, int how)
{
	char own[1024], away[1024];

	snprintf(own, sizeof(own), "%s/%s", folder, name);
	snprintf(away, sizeof(away), "%s/.away", folder);
	if (how == 3) {
		if (truncate(own, rand() % 5000))
			pause_us(100);
		return;
	}
	if (rename(own, away))
		return;
	if (how == 0 && symlink(victim, own))
		pause_us(10);
	if (how == 1 && mkfifo(own, 0666))
		pause_us(10);
	if (how == 2 && symlink("/proc/self/fd/0", own))
		pause_us(10);
	pause_us(200 + rand() % 3000);
	unlink(own);
	rename(away, own);
}

static void files(const char *folder, const char *victim)
{
	/* Names that may be foreseen are there before the program is. */
	static const char *const foreseen[] = {"manifest.json", "verdict.json", "report.html", "spikes.jsonl", "series", "out", "r.html"};

	for (unsigned int round = 0;; round++) {
		DIR *open = opendir(folder);
		struct dirent *entry;

		if (!open)
			return;
		while ((entry = readdir(open)))
			if (entry->d_name[0] != '.')
				change(folder, entry->d_name, victim, rand() % 4);
		closedir(open);
		if (round % 50 == 0) {
			char name[1024];

			snprintf(name, sizeof(name), "%s/%s", folder, foreseen[round / 50 % 7]);
			if (symlink(victim, name) == 0) {
				pause_us(2000);
				unlink(name);
			}
		}
		pause_us(100);
	}
}

/* This program, with every table of symbols and names as long as a hole of 3 GiB. */
static int claiming(const char *named)
{
	int own = open("/proc/self/exe", O_RDONLY), file = open(named, O_RDWR | O_CREAT, 0777);
	static char bytes[1 << 20];
	ssize_t length = read(own, bytes, sizeof(bytes));
	Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
	Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + header->e_shoff);

	close(own);
	if (file < 0 || length < (ssize_t)sizeof(*header) || header->e_shoff + header->e_shnum * sizeof(*sections) > (size_t)length)
		return -1;
	for (int n = 0; n < header->e_shnum; n++)
		if (n != header->e_shstrndx && (sections[n].sh_type == SHT_SYMTAB || sections[n].sh_type == SHT_STRTAB)) {
			sections[n].sh_offset = 0;
			sections[n].sh_size = rand() % 2 ? 3ul << 30 : 140ul << 20;
		}
	if (write(file, bytes, length) != length || ftruncate(file, 3l << 30))
		return -1;
	return file;
}

/* A real-time thread is what lint and monitor look for; without permission it is an ordinary one. */
static void target(const char *named)
{
	int file;
	void *mapped;

	unlink(named);
	file = claiming(named);
	if (file < 0)
		_exit(1);
	mapped = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (mapped == MAP_FAILED)
		_exit(1);
	unlink(named);
	if (mkfifo(named, 0666))
		pause_us(10);
	for (int n = 200 + rand() % 5000; n > 0; n--)
		pause_us(1000);
	switch (rand() % 4) {
	case 0:
		execl("/proc/self/exe", "hostile", "process-again", named, NULL);
		break;
	case 1:
		execl("/bin/su", "su", "--version", NULL);
		break;
	case 2:
		execl("/bin/sleep", "sleep", "0.3", NULL);
		break;
	}
	_exit(0);
}

static void processes(const char *named)
{
	for (;;) {
		pid_t child = fork();

		if (child == 0) {
			srand(getpid());
			target(named);
		}
		printf("%d\n", child);
		fflush(stdout);
		/* A program that looks at it meanwhile finds it traced, stopped, or ended and not waited for. */
		pause_us(1000 * (rand() % 999));
		if (rand() % 2 && ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0) {
			ptrace(PTRACE_INTERRUPT, child, NULL, NULL);
			pause_us(1000 * (rand() % 200));
		}
		if (rand() % 3 == 0)
			kill(child, SIGSTOP);
		for (int n = rand() % 4; n > 0; n--)
			pause_us(1000 * 700);
		kill(child, SIGKILL);
		pause_us(1000 * (rand() % 50));
		waitpid(child, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	srand(getpid());
	if (argc == 4 && strcmp(argv[1], "files") == 0)
		files(argv[2], argv[3]);
	if (argc == 3 && strcmp(argv[1], "process") == 0)
		processes(argv[2]);
	if (argc == 3 && strcmp(argv[1], "process-again") == 0)
		target(argv[2]);
	return 1;
}
