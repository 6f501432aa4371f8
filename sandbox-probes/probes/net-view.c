/* The network the core can read about has no interface but lo, no route, no socket. */
#include "probe.h"

static char text[1 << 16];

/* lines counts the lines of a file after its heading. */
static int lines(const char *path, int heading, const char *except)
{
	int n = 0;
	char *rest = NULL;

	if (slurp(path, text, sizeof text) < 0)
		return errno;
	for (char *l = strtok_r(text, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest))
		if (heading-- <= 0 && !(except && strstr(l, except))) {
			n++;
			say("%.80s", l);
		}
	return n ? OPEN : ENODATA;
}
static int interfaces(void) { return lines("/proc/self/net/dev", 2, "lo:"); }
static int routes(void) { return lines("/proc/self/net/route", 1, NULL); }
static int routes6(void) { return lines("/proc/self/net/ipv6_route", 0, " lo"); }
static int unix_sockets(void) { return lines("/proc/self/net/unix", 1, NULL); }
static int tcp(void) { return lines("/proc/self/net/tcp", 1, NULL); }
static int arp(void) { return lines("/proc/self/net/arp", 1, NULL); }
static int lo_traffic(void)
{
	unsigned long long bytes = 0;
	char *lo;

	if (slurp("/proc/self/net/dev", text, sizeof text) < 0)
		return errno;
	lo = strstr(text, "lo:");
	if (!lo || sscanf(lo + 3, "%llu", &bytes) != 1)
		return ENODATA;
	return bytes ? OPEN : ENODATA;
}

CHECKS({"interfaces", interfaces}, {"routes", routes}, {"routes6", routes6}, {"unix-sockets", unix_sockets}, {"tcp-sockets", tcp},
       {"arp", arp}, {"lo-traffic", lo_traffic})
