package verdict

import (
	"golang.org/x/sys/unix"
)

// Result says whether what the core left may be taken.
type Result struct {
	OK      bool    `json:"ok"`
	Problem Problem `json:"problem"` // empty when OK
	Size    int64   `json:"size"`
}

// Problem is why a result file is not taken.
type Problem string

// The problems.
const (
	OtherFile   Problem = "other_file"  // not the file that was opened before the start
	NotRegular  Problem = "not_regular" // no regular file
	Links       Problem = "links"       // not exactly one link
	TooLarge    Problem = "too_large"   // beyond its bound
	TooManyBlk  Problem = "blocks"      // more disk than its size explains
	ModeChanged Problem = "mode"
	OwnerChange Problem = "owner"
	NotDurable  Problem = "not_durable" // its bytes did not reach the slot's disk
	NotJudged   Problem = "not_judged"  // the attempt did not come so far
)

// blockSlack is what a file system may allocate beyond a file's bytes.
const blockSlack = 64 << 10

// JudgeResult compares the result's descriptor after the death with itself
// before the start. It is asked of the descriptor, so no name is looked up that
// the core could have changed (Q19); and after every process is dead, so nothing
// can change behind the look.
func JudgeResult(before, after unix.Stat_t, maxBytes int64) Result {
	r := Result{Size: after.Size}
	switch {
	case before.Dev != after.Dev || before.Ino != after.Ino:
		r.Problem = OtherFile
	case after.Mode&unix.S_IFMT != unix.S_IFREG:
		r.Problem = NotRegular
	case after.Nlink != 1:
		r.Problem = Links
	case after.Size > maxBytes:
		r.Problem = TooLarge
	case after.Blocks*512 > maxBytes+blockSlack:
		r.Problem = TooManyBlk
	case before.Mode != after.Mode:
		r.Problem = ModeChanged
	case before.Uid != after.Uid || before.Gid != after.Gid:
		r.Problem = OwnerChange
	default:
		r.OK = true
	}
	return r
}
