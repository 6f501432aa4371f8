package selftest

// TestOnlyProbes narrows a tester to the named probes.
func (t *Tester) TestOnlyProbes(names ...string) { t.testOnlyProbes = names }
