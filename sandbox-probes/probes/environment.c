/* The start gives the core nothing of the user's or the host's. */
#include "probe.h"
#include <sys/auxv.h>
#include <sys/utsname.h>

extern char **environ;
static int variables(void)
{
	int found = 0;

	for (char **v = environ; *v; v++)
		if (strcmp(*v, "HOSTNAME=core") && strcmp(*v, "HOME=/")) {
			found++;
			say("%.60s", *v);
		}
	return found ? OPEN : ENODATA;
}
static int arguments(void)
{
	char text[4096];
	ssize_t n = slurp("/proc/self/cmdline", text, sizeof text);

	if (n < 0)
		return errno;
	say("%.80s", text);
	return n == 6 && !strcmp(text, "/core") ? ENODATA : OPEN;
}
static int hostname(void)
{
	struct utsname u;

	uname(&u);
	say("%s", u.nodename);
	return !strcmp(u.nodename, "core") ? ENODATA : OPEN;
}
static int folder(void)
{
	char cwd[256] = "";

	if (readlink("/proc/self/cwd", cwd, sizeof cwd - 1) < 0)
		return errno;
	return !strcmp(cwd, "/") ? ENODATA : OPEN;
}
static int mask(void)
{
	char status[8192], *at;
	unsigned value = 0;

	if (slurp("/proc/self/status", status, sizeof status) < 0)
		return errno;
	at = strstr(status, "\nUmask:");
	if (!at || sscanf(at + 7, "%o", &value) != 1)
		return ENODATA;
	say("%04o", value);
	return value == 077 ? ENODATA : OPEN;
}
/* Seen from inside, the core's cgroup is the root of every hierarchy. */
static int groups(void)
{
	char text[4096], *rest = NULL;

	if (slurp("/proc/self/cgroup", text, sizeof text) < 0)
		return errno;
	for (char *l = strtok_r(text, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
		char *path = strrchr(l, ':');
		if (path && strcmp(path, ":/")) {
			say("%.120s", path);
			return OPEN;
		}
	}
	return ENODATA;
}

CHECKS({"variables", variables}, {"arguments", arguments}, {"hostname", hostname}, {"folder", folder}, {"umask", mask},
       {"cgroup-paths", groups})
