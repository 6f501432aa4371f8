/* No internet socket of any type, and no call on one. */
#include "probe.h"
#include <netinet/in.h>
#include <sys/socket.h>

CALL_FD(tcp4, SYS_socket, AF_INET, SOCK_STREAM, 0)
CALL_FD(udp4, SYS_socket, AF_INET, SOCK_DGRAM, 0)
CALL_FD(ping4, SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_ICMP)
CALL_FD(raw4, SYS_socket, AF_INET, SOCK_RAW, IPPROTO_TCP)
CALL_FD(sctp4, SYS_socket, AF_INET, SOCK_SEQPACKET, 132)
CALL_FD(mptcp4, SYS_socket, AF_INET, SOCK_STREAM, 262)
CALL_FD(tcp6, SYS_socket, AF_INET6, SOCK_STREAM, 0)
CALL_FD(udp6, SYS_socket, AF_INET6, SOCK_DGRAM, 0)
CALL_FD(raw6, SYS_socket, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6)
static char address[128];
static unsigned length = 16;
CALL(do_connect, SYS_connect, -1, address, 16)
CALL(do_bind, SYS_bind, -1, address, 16)
CALL(do_listen, SYS_listen, -1, 1)
CALL(do_accept, SYS_accept, -1, NULL, NULL)
CALL(do_accept4, SYS_accept4, -1, NULL, NULL, 0)
CALL(do_sendto, SYS_sendto, -1, "x", 1, 0, address, 16)
CALL(do_recvfrom, SYS_recvfrom, -1, detail, 1, 0, NULL, NULL)
CALL(do_sendmsg, SYS_sendmsg, -1, address, 0)
CALL(do_recvmsg, SYS_recvmsg, -1, address, 0)
CALL(do_sendmmsg, SYS_sendmmsg, -1, address, 1, 0)
CALL(do_recvmmsg, SYS_recvmmsg, -1, address, 1, 0, NULL)
CALL(do_getsockopt, SYS_getsockopt, -1, 1, 1, address, &length)
CALL(do_setsockopt, SYS_setsockopt, -1, 1, 2, address, 4)
CALL(do_getsockname, SYS_getsockname, -1, address, &length)
CALL(do_getpeername, SYS_getpeername, -1, address, &length)
CALL(do_shutdown, SYS_shutdown, -1, 2)

CHECKS({"tcp4", tcp4}, {"udp4", udp4}, {"ping4", ping4}, {"raw4", raw4}, {"sctp4", sctp4}, {"mptcp4", mptcp4}, {"tcp6", tcp6}, {"udp6", udp6},
       {"raw6", raw6}, {"connect", do_connect}, {"bind", do_bind}, {"listen", do_listen}, {"accept", do_accept}, {"accept4", do_accept4},
       {"sendto", do_sendto}, {"recvfrom", do_recvfrom}, {"sendmsg", do_sendmsg}, {"recvmsg", do_recvmsg}, {"sendmmsg", do_sendmmsg},
       {"recvmmsg", do_recvmmsg}, {"getsockopt", do_getsockopt}, {"setsockopt", do_setsockopt}, {"getsockname", do_getsockname},
       {"getpeername", do_getpeername}, {"shutdown", do_shutdown})
