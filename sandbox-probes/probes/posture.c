/*
 * Shows all that the kernel tells the core of itself: files whole, folders by
 * name, links by target. The runner holds it against expected.yaml, once as told
 * from inside and once as the kernel tells it outside of the same process. With
 * stay=1 it then waits until the input grows.
 */
#include "probe.h"
#include <dirent.h>
#include <sys/utsname.h>

static void escaped(const char *text, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c == '\n')
			line("\\n");
		else if (c == '\\')
			line("\\\\");
		else if (c < 32 || c > 126)
			line("\\x%02x", c);
		else
			line("%c", c);
	}
}
static void file(const char *path)
{
	static char text[1 << 16];
	ssize_t n = slurp(path, text, sizeof text);

	if (n < 0) {
		line("ERROR %s %s\n", path, strerrorname_np(errno));
		return;
	}
	line("FILE %s ", path);
	escaped(text, n);
	line("\n");
}
static void target(const char *path)
{
	char to[512];
	ssize_t n = readlink(path, to, sizeof to);

	if (n < 0) {
		line("ERROR %s %s\n", path, strerrorname_np(errno));
		return;
	}
	line("LINK %s ", path);
	escaped(to, n);
	line("\n");
}
static void folder(const char *path, int targets)
{
	DIR *d = opendir(path);

	if (!d) {
		line("ERROR %s %s\n", path, strerrorname_np(errno));
		return;
	}
	line("DIR %s", path);
	for (struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			line(" %s", e->d_name);
	line("\n");
	rewinddir(d);
	for (struct dirent *e; targets && (e = readdir(d));) {
		char full[512];
		if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(d))
			continue;
		snprintf(full, sizeof full, "%s/%s", path, e->d_name);
		target(full);
	}
	closedir(d);
}
static void inode(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		line("ERROR %s %s\n", path, strerrorname_np(errno));
	else
		line("INODE %s %lx:%lu mode=%o uid=%u gid=%u nlink=%lu\n", path, (long)st.st_dev, (unsigned long)st.st_ino, st.st_mode, st.st_uid,
		     st.st_gid, (unsigned long)st.st_nlink);
}

int main(void)
{
	static const char *const files[] = {"status", "uid_map", "gid_map", "setgroups", "limits", "mountinfo", "environ", "cmdline", "cgroup",
		"oom_score_adj", "coredump_filter", "attr/current", "attr/apparmor/current", "comm", "loginuid", "personality", "timens_offsets", "net/dev"};
	static const char *const spaces[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts", "time", "pid_for_children", "time_for_children"};
	static const char *const places[] = {".", "in", "out", "core", INPUT, RESULT, "etc", "etc/hostname", "run", "run/.containerenv", "proc", "sys", "dev",
		"dev/null", "dev/zero", "dev/full", "dev/tty", "dev/random", "dev/urandom", "dev/ptmx", "dev/pts", "dev/mqueue", "dev/shm"};
	static const char *const folders[] = {".", "in", "out", "etc", "run", "sys", "dev", "dev/pts", "dev/mqueue", "proc"};
	struct utsname u;
	struct stat st, now;
	char path[128];

	if (slurp(INPUT, order, sizeof order) < 0 || stat(INPUT, &st))
		return 2;
	order[strcspn(order, "\n")] = 0;
	folder("/proc/self/fd", 1);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "/proc/self/%s", files[i]);
		file(path);
	}
	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
		snprintf(path, sizeof path, "/proc/self/ns/%s", spaces[i]);
		target(path);
	}
	target("/proc/self/cwd");
	target("/proc/self/root");
	target("/proc/self/exe");
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
		folder(folders[i], 0);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		inode(places[i]);
	uname(&u);
	line("UNAME %s %s %s\n", u.sysname, u.nodename, u.domainname);
	line("END\n");
	flush_report();
	while (param("stay", 0) && !stat(INPUT, &now) && now.st_size == st.st_size)
		pause_ms(2);
	return 0;
}
