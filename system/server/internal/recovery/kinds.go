package recovery

// Kind is one way in which rows and files do not fit.
type Kind string

// Of a file that a row names.
const (
	MissingFile Kind = "missing_file"
	WrongSize   Kind = "wrong_size"
	WrongHash   Kind = "wrong_hash"
	NotPlain    Kind = "not_plain"  // a link, a folder, a device under an object's name
	ExtraLink   Kind = "extra_link" // somebody can reach the bytes by another name
	WrongMode   Kind = "wrong_mode"
	WrongOwner  Kind = "wrong_owner"
	Unreadable  Kind = "unreadable"
)

// Of a file that no row names.
const (
	Orphan    Kind = "orphan"
	Temporary Kind = "temporary"
	Foreign   Kind = "foreign" // the system makes no file of this name
)

// Of rows alone.
const (
	StatusHistory Kind = "status_differs_from_history"
	TokenHistory  Kind = "token_below_history"
	ResultHistory Kind = "result_without_finish"
	LeaseOverdue  Kind = "lease_overdue"
	LiveInputGone Kind = "live_input_purged"
	PurgeDiffers  Kind = "purge_differs"
	InputSize     Kind = "input_size_differs"
	ForeignKeyRow Kind = "key_of_another_user"
	ResultKey     Kind = "result_key_of_another_job"
	Unvalidated   Kind = "constraint_not_validated"
	BrokenRestore Kind = "restore_not_completed"
	NotRestored   Kind = "not_restored" // in the backup, and not here as it was
	CountDiffers  Kind = "count_differs"
	RightsDiffer  Kind = "rights_differ"
)

// remedies say, for each kind, what it means for the people concerned and what to
// do. docs/RECOVERY.md lists the same.
var remedies = map[Kind]string{
	MissingFile:   "restore the file from a backup; a lost result is answered with 500 until then, or with 410 after fsck --mend --expire-lost",
	WrongSize:     "restore the file from a backup; its bytes are never given out as they are",
	WrongHash:     "restore the file from a backup; its bytes are never given out as they are",
	NotPlain:      "somebody else wrote into the storage: find out who, then restore the file from a backup",
	ExtraLink:     "somebody else linked the file: find out who, and remove the other name",
	WrongMode:     "fsck --mend sets it right",
	WrongOwner:    "fsck --mend sets it right when run as root",
	Unreadable:    "run fsck as root or as the server's user",
	Orphan:        "fsck --mend removes it as the sweeper does; so does the sweeper's next round",
	Temporary:     "fsck --mend removes it; so does a server within seconds, if it belongs to nobody",
	Foreign:       "no part of the system made it: find out who did, then move it away",
	StatusHistory: "rows were changed by hand or lost: compare with job show and with a backup",
	TokenHistory:  "rows were changed by hand or lost: an old worker could be believed; restore from a backup",
	ResultHistory: "rows were changed by hand or lost: compare with job show and with a backup",
	LeaseOverdue:  "no server takes leases back: start one, or look in its log for this job",
	LiveInputGone: "the job cannot run: restore its input from a backup",
	PurgeDiffers:  "rows were changed by hand: compare with job show",
	InputSize:     "rows were changed by hand: the owner's stored bytes are counted wrong",
	ForeignKeyRow: "rows were changed by hand: delete the key's row",
	ResultKey:     "rows were changed by hand: the result may be another job's; restore from a backup",
	Unvalidated:   "a restore or migration was cut off: validate the constraint",
	BrokenRestore: "empty the database and the storage and restore again",
	CountDiffers:  "compare with the backup; right after a restore nothing may differ",
	NotRestored:   "the installation is not one that was restored from this backup, or it lost the file since",
	RightsDiffer:  "run migrate up --admin-url-file, then look at what is left",
}

// Finding is one mismatch.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject"` // a storage key, a path below the storage root, a table
	Job     string `json:"job,omitempty"`
	Detail  string `json:"detail"`
	Remedy  string `json:"remedy"`
	Mended  bool   `json:"mended"`

	result bool // of a file: it is a completed job's result
}

func found(kind Kind, subject, job, detail string) Finding {
	return Finding{Kind: kind, Subject: subject, Job: job, Detail: detail, Remedy: remedies[kind]}
}

// FsckKinds are the kinds that a look without a backup can find; docs/RECOVERY.md
// and a test that plants each are held to it.
func FsckKinds() []Kind {
	return []Kind{
		MissingFile, WrongSize, WrongHash, NotPlain, ExtraLink, WrongMode, WrongOwner, Orphan, Temporary, Foreign,
		StatusHistory, TokenHistory, ResultHistory, LeaseOverdue, LiveInputGone, PurgeDiffers, InputSize, ForeignKeyRow, ResultKey,
		Unvalidated, BrokenRestore,
	}
}
