/* Results that look like what they are not; the launcher judges them by the descriptor. */
#include "probe.h"

static int empty(void) { return 0; }
static int partial_then_error(void)
{
	int fd = open(RESULT, O_WRONLY);
	return write(fd, "half of a result", 16) == 16 ? 70 : 71;
}
static int hole(void)
{
	int fd = open(RESULT, O_WRONLY);
	return ftruncate(fd, param("limit", 1 << 20)) ? 71 : 0;
}
/* Fill to the bound and stay there, so that the host can look. */
static int full(void)
{
	static char chunk[1 << 16];
	int fd = open(RESULT, O_WRONLY);

	for (off_t done = 0; done < param("limit", 1 << 20); done += (off_t)sizeof chunk)
		if (pwrite(fd, chunk, sizeof chunk, done) < 0)
			return 5;
	return 0;
}
static int over(void)
{
	int fd = open(RESULT, O_WRONLY);
	return pwrite(fd, "x", 1, param("limit", (1 << 20) + 1)) == 1 ? 0 : 5;
}
static int refusal_with_diagnostic(void)
{
	static const char text[] = "{\"line\":1,\"column\":1,\"message\":\"\\u001b[2J forged\"}";
	int fd = open(RESULT, O_WRONLY);
	return write(fd, text, sizeof text - 1) < 0 ? 71 : 3;
}
static int plain(void)
{
	int fd = open(RESULT, O_WRONLY);
	return write(fd, "END\n", 4) == 4 ? 0 : 71;
}

int main(void)
{
	static const struct check ways[] = {{"empty", empty}, {"partial-then-error", partial_then_error}, {"hole", hole}, {"full", full}, {"over", over},
		{"diagnostic", refusal_with_diagnostic}, {"plain", plain}, {NULL, NULL}};

	if (slurp(INPUT, order, sizeof order) < 0)
		return 2;
	order[strcspn(order, "\n")] = 0;
	for (const struct check *c = ways; c->name; c++)
		if (named(c->name))
			return c->act();
	return 3;
}
