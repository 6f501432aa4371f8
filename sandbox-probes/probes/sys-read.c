/* /sys is empty: no device, no cgroup, no kernel setting shows. */
#include "probe.h"
#include <dirent.h>

static int listed(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	if (!d)
		return errno;
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	say("%d entries", n);
	return n ? OPEN : ENOENT;
}
static int top(void) { return listed("/sys"); }
static int cgroups(void) { return listed("/sys/fs/cgroup"); }
static int network(void) { return listed("/sys/class/net"); }
static int block(void) { return listed("/sys/block"); }
static int tracing(void) { return listed("/sys/kernel"); }
static int firmware(void) { return listed("/sys/firmware"); }
static int modules(void) { return listed("/sys/module"); }
static int cgroup_write(void)
{
	int err = try_open("/sys/fs/cgroup/memory/cgroup.procs", O_WRONLY);
	return err == ENOENT ? try_open("/sys/fs/cgroup/cgroup.procs", O_WRONLY) : err;
}
static int release_agent(void) { return try_open("/sys/fs/cgroup/memory/release_agent", O_WRONLY); }

CHECKS({"top", top}, {"cgroup", cgroups}, {"class-net", network}, {"block", block}, {"kernel", tracing},
       {"firmware", firmware}, {"module", modules}, {"cgroup-procs-write", cgroup_write}, {"release-agent-write", release_agent})
