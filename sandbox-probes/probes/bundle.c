/*
 * The core that holds every probe: the first word of the input chooses one. The
 * build renames each program's main and makes the table (programs.inc), so that
 * one image and one running system serve all of them.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM(name, entry) int entry(void);
#include "programs.inc"
#undef PROGRAM

static const struct {
	const char *name;
	int (*entry)(void);
} programs[] = {
#define PROGRAM(name, entry) {name, entry},
#include "programs.inc"
};

int main(void)
{
	char head[128] = "";
	int fd = open("in/input", O_RDONLY);

	if (fd < 0 || read(fd, head, sizeof head - 1) < 0)
		return 2;
	close(fd);
	head[strcspn(head, " \n")] = 0;
	for (unsigned i = 0; i < sizeof programs / sizeof *programs; i++)
		if (!strcmp(programs[i].name, head))
			return programs[i].entry();
	return 3;
}
