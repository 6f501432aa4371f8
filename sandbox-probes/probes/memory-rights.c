/* No page is writable and executable at once, and none that was written to a file can run. */
#include "probe.h"

#define WX (PROT_READ | PROT_WRITE | PROT_EXEC)
static void *page(int rights)
{
	void *at = (void *)syscall(SYS_mmap, NULL, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
	return at == MAP_FAILED ? NULL : at;
}
static int map_wx(void) { return page(WX) ? OPEN : errno; }
static int map_w_x_only(void) { return page(PROT_WRITE | PROT_EXEC) ? OPEN : errno; }
static int protect_wx(void)
{
	void *at = page(PROT_READ | PROT_WRITE);
	return at ? refused(syscall(SYS_mprotect, at, 4096L, (long)WX)) : errno;
}
static int protect_stack(void)
{
	char here;
	return refused(syscall(SYS_mprotect, (uintptr_t)&here & ~4095UL, 4096L, (long)WX | 0x01000000L /* PROT_GROWSDOWN */));
}
static int protect_text(void) { return refused(syscall(SYS_mprotect, (uintptr_t)&protect_text & ~4095UL, 4096L, (long)WX)); }
/* The kernel looks at more than the list compares: high bits must not slip past. */
static int high_bits(void)
{
	long at = syscall(SYS_mmap, NULL, 4096L, (1L << 32) | WX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
	return refused(at);
}
static int file_exec(const char *path)
{
	int fd = open(path, O_RDONLY), err = OPEN;

	if (fd < 0)
		return errno;
	if ((void *)syscall(SYS_mmap, NULL, 4096L, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0L) == MAP_FAILED)
		err = errno;
	close(fd);
	return err;
}
static int map_result_exec(void) { return file_exec(RESULT); }
static int map_input_exec(void) { return file_exec(INPUT); }
static int protect_result_exec(void)
{
	int fd = open(RESULT, O_RDONLY);
	void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	close(fd);
	return at == MAP_FAILED ? errno : refused(syscall(SYS_mprotect, at, 4096L, PROT_READ | PROT_EXEC));
}
static int low(void)
{
	void *at = mmap((void *)0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return at == MAP_FAILED ? errno : OPEN;
}
/* Locked memory: MAP_LOCKED goes through mmap, which is allowed. */
static int map_locked(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	return at == MAP_FAILED ? errno : OPEN;
}
static int advise(int what)
{
	void *at = page(PROT_READ | PROT_WRITE);
	return refused(syscall(SYS_madvise, at, 4096L, (long)what));
}
static int mergeable(void) { return advise(12); }
static int cold(void) { return advise(20); }
static int pageout(void) { return advise(21); }
static int removed(void) { return advise(9); }
static int dontdump(void) { return advise(16); }
static int wipe(void) { return advise(18); }
static int populate(void) { return advise(23); }
static int collapse(void) { return advise(25); }
static int advise_high(void)
{
	void *at = page(PROT_READ | PROT_WRITE);
	return refused(syscall(SYS_madvise, at, 4096L, (1L << 32) | 12L));
}
static char room[64];
CALL(do_mlock, SYS_mlock, room, 1)
CALL(do_mlock2, SYS_mlock2, room, 1, 0)
CALL(do_mlockall, SYS_mlockall, 4)
CALL(do_munlockall, SYS_munlockall)
CALL(do_mincore, SYS_mincore, (uintptr_t)room & ~4095UL, 4096, room)
CALL(do_msync, SYS_msync, (uintptr_t)room & ~4095UL, 4096, 1)
CALL(do_mbind, SYS_mbind, 0, 0, 0, NULL, 0, 0)
CALL(do_mempolicy, SYS_set_mempolicy, 0, NULL, 0)
CALL(do_get_mempolicy, SYS_get_mempolicy, room, NULL, 0, 0, 0)
CALL(do_move_pages, SYS_move_pages, 0, 0, NULL, NULL, NULL, 0)
CALL(do_migrate, SYS_migrate_pages, 0, 0, NULL, NULL)
CALL(do_remap, SYS_remap_file_pages, 0, 4096, 0, 0, 0)
CALL(do_pkey_mprotect, SYS_pkey_mprotect, (uintptr_t)room & ~4095UL, 4096, PROT_READ | PROT_WRITE, -1)
CALL(do_mseal, 462, 0, 0, 0)

CHECKS({"map-write-exec", map_wx}, {"map-write-exec-no-read", map_w_x_only}, {"protect-write-exec", protect_wx}, {"protect-stack-exec", protect_stack},
       {"protect-text-write", protect_text}, {"map-high-bits", high_bits}, {"map-result-exec", map_result_exec}, {"map-input-exec", map_input_exec},
       {"protect-result-exec", protect_result_exec}, {"map-page-zero", low}, {"map-locked", map_locked},
       {"madvise-mergeable", mergeable}, {"madvise-cold", cold}, {"madvise-pageout", pageout}, {"madvise-remove", removed},
       {"madvise-dontdump", dontdump}, {"madvise-wipeonfork", wipe}, {"madvise-populate", populate}, {"madvise-collapse", collapse},
       {"madvise-high-bits", advise_high}, {"mlock", do_mlock}, {"mlock2", do_mlock2}, {"mlockall", do_mlockall}, {"munlockall", do_munlockall},
       {"mincore", do_mincore}, {"msync", do_msync}, {"mbind", do_mbind}, {"set-mempolicy", do_mempolicy}, {"get-mempolicy", do_get_mempolicy},
       {"move-pages", do_move_pages}, {"migrate-pages", do_migrate}, {"remap-file-pages", do_remap}, {"pkey-mprotect", do_pkey_mprotect},
       {"mseal", do_mseal})
