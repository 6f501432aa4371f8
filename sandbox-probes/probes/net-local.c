/* No local socket: neither a path, nor a pair, nor an abstract name. */
#include "probe.h"
#include <sys/socket.h>
#include <sys/un.h>

static int pair[2];
CALL_FD(stream, SYS_socket, AF_UNIX, SOCK_STREAM, 0)
CALL_FD(dgram, SYS_socket, AF_UNIX, SOCK_DGRAM, 0)
CALL_FD(seqpacket, SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0)
CALL(do_socketpair, SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair)
static int abstract(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0glovebox-probe"};
	int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0), err;

	if (fd < 0)
		return errno;
	err = refused(syscall(SYS_bind, fd, &a, sizeof(sa_family_t) + 15));
	close(fd);
	return err;
}
static int named_socket(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "out/socket"};
	int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0), err;

	if (fd < 0)
		return errno;
	err = refused(syscall(SYS_bind, fd, &a, sizeof a));
	close(fd);
	return err;
}

CHECKS({"stream", stream}, {"dgram", dgram}, {"seqpacket", seqpacket}, {"socketpair", do_socketpair}, {"abstract-name", abstract}, {"path-name", named_socket})
