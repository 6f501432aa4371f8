package suite

// channel is one thing through which two jobs might pass a bit; the probe "pair"
// knows it by the same name.
type channel struct {
	name  string
	short bool // is tried in the CI size too
	after bool // also tried one after another: what is sent outlives its sender
	// accepted is a sentence of the threat model without which the open channel is
	// a breach (SBX-15).
	accepted string
	// needs says, where it is not empty, what a host may lack; a control that does
	// not work is then unavailable instead of an error.
	needs string
}

var channels = []channel{
	{name: "file-content", short: true, after: true},
	{name: "file-size", after: true},
	{name: "file-times"},
	{name: "free-blocks", short: true},
	{name: "free-blocks-root"},
	{name: "free-blocks-dev"},
	{name: "file-lock"},
	{name: "record-lock"},
	{name: "abstract-socket", short: true},
	{name: "memory-file", after: true},
	{name: "shared-segment", short: true, after: true},
	{name: "message-queue", after: true},
	{name: "thread-count-loadavg"},
	{name: "thread-count-sysinfo"},
	{name: "free-memory-sysinfo"},
	{name: "free-memory-meminfo"},
	{name: "page-faults"},
	{name: "context-switches"},
	{name: "open-files"},
	{name: "futex-on-program", short: true},
	{name: "pipe-inode-numbers", short: true},
	{name: "proc-inode-numbers", accepted: "inode numbers"},
	{name: "terminal-numbers"},
	{name: "tcp-socket-count"},
	{name: "audit-sessions", short: true},
	{name: "host-name", after: true},
	{name: "user-keyring", after: true, needs: "keyrings in the kernel"},
	{name: "process-count"},
	{name: "processor-load", accepted: "share a processor can feel each other's load", needs: "a processor that nobody else keeps busy"},
}
