/* No System V or POSIX message, semaphore or shared memory. */
#include "probe.h"

static char room[256];
CALL(do_shmget, SYS_shmget, 0x61626364, 4096, 01600)
CALL(do_shmat, SYS_shmat, -1, NULL, 0)
CALL(do_shmctl, SYS_shmctl, -1, 2, room)
CALL(do_shmdt, SYS_shmdt, NULL)
CALL(do_semget, SYS_semget, 0x61626364, 1, 01600)
CALL(do_semop, SYS_semop, -1, room, 1)
CALL(do_semtimedop, SYS_semtimedop, -1, room, 1, NULL)
CALL(do_semctl, SYS_semctl, -1, 0, 0, 0)
CALL(do_msgget, SYS_msgget, 0x61626364, 01600)
CALL(do_msgsnd, SYS_msgsnd, -1, room, 1, 0)
CALL(do_msgrcv, SYS_msgrcv, -1, room, 1, 0, 0)
CALL(do_msgctl, SYS_msgctl, -1, 2, room)
static int do_mq_open(void)
{
	long fd = syscall(SYS_mq_open, "glovebox-probe", O_CREAT | O_RDWR, 0600, NULL);
	if (fd >= 0)
		syscall(SYS_mq_unlink, "glovebox-probe");
	return refused_fd(fd);
}
/* A queue is also a file: made by open, which is allowed, only the limit stops it. */
static int by_open(void)
{
	char path[64] = "/dev/mqueue/glovebox-probe";
	struct stat st;
	int err;

	if (stat("/dev/mqueue/.", &st)) { /* outside it need not be mounted */
		if (syscall(SYS_mount, "mqueue", "etc/nothing", "mqueue", 0, NULL))
			return errno;
		strcpy(path, "etc/nothing/glovebox-probe");
	}
	err = try_open(path, O_CREAT | O_RDWR);
	if (err == OPEN)
		syscall(SYS_unlink, path);
	return err;
}
CALL(do_mq_unlink, SYS_mq_unlink, "glovebox-none")
CALL(do_mq_send, SYS_mq_timedsend, -1, room, 1, 0, NULL)
CALL(do_mq_receive, SYS_mq_timedreceive, -1, room, 1, NULL, NULL)

CHECKS({"shmget", do_shmget}, {"shmat", do_shmat}, {"shmctl", do_shmctl}, {"shmdt", do_shmdt}, {"semget", do_semget}, {"semop", do_semop},
       {"semtimedop", do_semtimedop}, {"semctl", do_semctl}, {"msgget", do_msgget}, {"msgsnd", do_msgsnd}, {"msgrcv", do_msgrcv},
       {"msgctl", do_msgctl}, {"mq-open", do_mq_open}, {"mq-file", by_open}, {"mq-unlink", do_mq_unlink}, {"mq-timedsend", do_mq_send}, {"mq-timedreceive", do_mq_receive})
