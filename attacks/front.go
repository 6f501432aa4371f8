package attacks

import "glovebox/attacks/harness"

// front are the families against the public interface and its transport.
var front = []harness.Family{
	auth,
	bruteforce,
	tokens,
	tenancy,
	mass,
	download,
	upload,
	framing,
	idempotency,
	slow,
	transport,
	faults,
	self,
}
