package attacks

import "strconv"

// itoa writes a length into a header line.
func itoa(n int) string { return strconv.Itoa(n) }
