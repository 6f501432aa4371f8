package attacks

import "glovebox/attacks/harness"

// inside lists the families that attack from behind the front door: certificates,
// workers, the storage, the database, the host.
var inside = []harness.Family{
	mtls, worker, ingest, storage, database, host, launcher, config, secrets, logs, timing, dos,
}
