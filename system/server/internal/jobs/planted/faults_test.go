package planted

// fault is one thing done wrong on purpose.
type fault struct {
	name, says string
	edits      []edit
	lift       []string // constraints and indexes of the test's database
	test       test
	// within is how many steps of the model, or histories, may go by before it is
	// found.
	within int
}

// edit replaces the only occurrence of old in a file below jobs/ or the server's
// internal folder.
type edit struct{ file, old, new string }

// test is a property test that counts how far it came.
type test struct {
	pkg, name, countEnv string
}

var (
	model     = test{"jobs/domain", "TestAnyInterleavingOfRequestsAgreesWithTheModel", "GLOVEBOX_MODEL_STEPS"}
	histories = test{"jobs/histories", "TestParallelHistoriesOnTheRealDatabaseHaveAnOrder", "GLOVEBOX_HISTORIES"}
)

const (
	transition = "jobs/domain/transition.go"
	changeSQL  = "jobs/adapters/postgres/transition.go"
	claimSQL   = "jobs/adapters/postgres/claim.go"
	finish     = "jobs/finish.go"
	anyParam   = "num_nonnulls($3::bigint, $4::text, $5::timestamptz, $6::boolean) >= 0"
)

var faults = []fault{
	{
		name: "lease-without-token", says: "whoever holds or held the lease is taken for the current attempt", test: model, within: 20_000,
		edits: []edit{{"jobs/domain/job.go", "\n\t\tj.FencingToken == fence.FencingToken && now.Before(j.LeaseExpires)", "\n\t\tnow.Before(j.LeaseExpires)"}},
	},
	{
		name: "heartbeat-without-token", says: "a late heartbeat of the same worker extends the lease of its next attempt (Q3)", test: model, within: 20_000,
		edits: []edit{{transition, "\tif !j.HoldsLease(fence, now) {\n\t\treturn j, LeaseLost()\n", "\tif j.Status != Processing || j.WorkerID != fence.WorkerID || !now.Before(j.LeaseExpires) {\n\t\treturn j, LeaseLost()\n"}},
	},
	{
		name: "finish-without-lease", says: "a result is taken after the lease ran out", test: model, within: 20_000,
		edits: []edit{{transition, "\tif !j.HoldsLease(fence, now) {\n\t\treturn j, Event{}, false, LeaseLost()", "\tif j.Status != Processing || j.WorkerID != fence.WorkerID || j.FencingToken != fence.FencingToken {\n\t\treturn j, Event{}, false, LeaseLost()"}},
	},
	{
		name: "hand-back-unlimited", says: "a worker that stops for ever keeps its job alive", test: model, within: 200_000,
		edits: []edit{{transition, "code == failure.WorkerShutdown && j.HandBacks < MaxHandBacks", "code == failure.WorkerShutdown"}},
	},
	{
		name: "hand-back-counted", says: "a hand-back costs an attempt", test: model, within: 20_000,
		edits: []edit{{transition, "\t\tj.Attempt--\n", ""}},
	},
	{
		name: "expiry-of-a-living-lease", says: "a job is taken from its worker while the lease lives", test: model, within: 20_000,
		edits: []edit{{transition, "j.Status != Processing || now.Before(j.LeaseExpires)", "j.Status != Processing"}},
	},
	{
		name: "change-without-token", says: "a change decided on what was read is stored whatever happened since: no token, worker or lease in the WHERE", test: histories, within: 1_000,
		edits: []edit{{changeSQL, " AND j.fencing_token = $3\n\t\t  AND j.worker_id IS NOT DISTINCT FROM $4 AND j.lease_expires_at IS NOT DISTINCT FROM $5\n\t\t  AND (NOT $6 OR j.lease_expires_at > clock_timestamp())", " AND " + anyParam}},
		lift:  []string{"job_events_one_end"},
	},
	{
		name: "expiry-without-recheck", says: "the rescuer overwrites what happened after it looked (Q1)", test: histories, within: 1_000,
		edits: []edit{{changeSQL, "` FROM free` + unchanged + ` AND j.id = free.id`", "` FROM free WHERE j.id = free.id AND " + anyParam + "`"}},
		lift:  []string{"job_events_one_end"},
	},
	{
		name: "sweep-without-second-look", says: "a file is removed by what was seen before its row was committed (Q10)", test: histories, within: 1_000,
		edits: []edit{{"jobs/adapters/postgres/ledger.go", "key).Scan(&named); err != nil || named {", "key).Scan(&named); err != nil {"}},
	},
	{
		name: "rename-after-commit", says: "the job is completed before its result has its name", test: histories, within: 2_000,
		edits: []edit{
			{finish, "\tif err := staged.Commit(ctx, result.StorageKey); err != nil {\n\t\treturn View{}, asUnavailable(err, \"the result cannot be stored now\")\n\t}\n", ""},
			{finish, "Pin: &pin, ", ""},
			{finish, "\tpin := s.pin(result.StorageKey, crashpoint.FinishBeforeCommit)\n", ""},
			{finish, "\tcrashpoint.Reached(crashpoint.FinishCommitted)\n", "\tif err := staged.Commit(ctx, result.StorageKey); err != nil {\n\t\treturn View{}, err\n\t}\n"},
		},
	},
	{
		name: "claim-without-attempt", says: "a claim does not count (Q6)", test: histories, within: 200,
		edits: []edit{{claimSQL, "attempt = j.attempt + 1,", "attempt = greatest(j.attempt, 1),"}},
	},
	{
		name: "token-reused", says: "the next attempt has the token of the last one", test: histories, within: 200,
		edits: []edit{{claimSQL, "fencing_token = j.fencing_token + 1,", "fencing_token = greatest(j.fencing_token, 1),"}},
		lift:  []string{"job_events_one_claim", "job_events_one_end", "jobs_token_counts_claims"},
	},
	{
		name: "claim-request-forgotten", says: "a claim sent again takes a second job", test: histories, within: 1_000,
		edits: []edit{{claimSQL, "\n\t\t  AND NOT EXISTS (SELECT FROM app.job_events e WHERE e.worker_id = $1 AND e.request_id = $2 AND e.cause = 'claimed')", ""}},
		lift:  []string{"job_events_claim_request"},
	},
	{
		name: "retention-cuts-a-download", says: "retention empties a file that somebody is reading", test: histories, within: 1_000,
		edits: []edit{{"storage/fs/sweep.go", "\tif err := folder.Remove(name); err != nil", "\tif f, err := folder.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0); err == nil {\n\t\t_ = f.Close()\n\t}\n\tif err := folder.Remove(name); err != nil"}},
	},
	{
		name: "key-taken-twice", says: "two requests under one Idempotency-Key race past each other and make two jobs (Q15)", test: histories, within: 1_000,
		edits: []edit{
			{"jobs/adapters/postgres/uploads.go", "\t\tif _, err := lockUser(ctx, tx, upload.UserID); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif upload.Key != \"\" {", "\t\tif upload.Key != \"\" {"},
			{"jobs/adapters/postgres/create.go", "AND upload_id = $3 AND job_id IS NULL`", "AND $3::uuid IS NOT NULL`"},
		},
	},
}
