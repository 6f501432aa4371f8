/* No socket that talks to the kernel or to the machine below: netlink, packet, vsock, crypto and the rest. */
#include "probe.h"
#include <sys/socket.h>

CALL_FD(route, SYS_socket, AF_NETLINK, SOCK_RAW, 0)
CALL_FD(uevent, SYS_socket, AF_NETLINK, SOCK_RAW, 15)
CALL_FD(audit, SYS_socket, AF_NETLINK, SOCK_RAW, 9)
CALL_FD(diag, SYS_socket, AF_NETLINK, SOCK_RAW, 4)
CALL_FD(netfilter, SYS_socket, AF_NETLINK, SOCK_RAW, 12)
CALL_FD(generic, SYS_socket, AF_NETLINK, SOCK_RAW, 16)
CALL_FD(packet, SYS_socket, AF_PACKET, SOCK_RAW, 0)
CALL_FD(vsock_stream, SYS_socket, 40, SOCK_STREAM, 0)
CALL_FD(vsock_dgram, SYS_socket, 40, SOCK_DGRAM, 0)
CALL_FD(alg, SYS_socket, 38, SOCK_SEQPACKET, 0)
CALL_FD(key, SYS_socket, 15, SOCK_RAW, 2)
CALL_FD(xdp, SYS_socket, 44, SOCK_RAW, 0)
CALL_FD(rds, SYS_socket, 21, SOCK_SEQPACKET, 0)
CALL_FD(tipc, SYS_socket, 30, SOCK_RDM, 0)
CALL_FD(can, SYS_socket, 29, SOCK_RAW, 1)
CALL_FD(bluetooth, SYS_socket, 31, SOCK_RAW, 1)
CALL_FD(nfc, SYS_socket, 39, SOCK_SEQPACKET, 0)
CALL_FD(qrtr, SYS_socket, 42, SOCK_DGRAM, 0)
CALL_FD(smc, SYS_socket, 43, SOCK_STREAM, 0)
CALL_FD(mctp, SYS_socket, 45, SOCK_DGRAM, 0)
CALL_FD(ppp, SYS_socket, 24, SOCK_STREAM, 1)
CALL_FD(llc, SYS_socket, 26, SOCK_STREAM, 0)

CHECKS({"netlink-route", route}, {"netlink-uevent", uevent}, {"netlink-audit", audit}, {"netlink-diag", diag}, {"netlink-netfilter", netfilter},
       {"netlink-generic", generic}, {"packet", packet}, {"vsock-stream", vsock_stream}, {"vsock-dgram", vsock_dgram}, {"alg", alg}, {"key", key},
       {"xdp", xdp}, {"rds", rds}, {"tipc", tipc}, {"can", can}, {"bluetooth", bluetooth}, {"nfc", nfc}, {"qrtr", qrtr}, {"smc", smc}, {"mctp", mctp},
       {"pppox", ppp}, {"llc", llc})
