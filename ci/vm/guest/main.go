// Command guest is what runs in the virtual machine: it sets the preferred mode up as
// an installation does, tries its walls, and writes what came of it as cases.
//
//	guest host     as root: users' services, self-tests, refusals, the door, inventory
//	guest inside   as the launcher's user in its user namespace: the probes
//	guest attempt  one job by the launcher's socket, as whoever runs it
//	guest loose    in place of the runtime: a container without the limits it was asked for
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	ctx := context.Background()
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	if strings.HasPrefix(filepath.Base(os.Args[0]), "loose") {
		mode = "loose"
	}
	var err error
	switch mode {
	case "host":
		err = host(ctx)
	case "inside":
		err = inside(ctx)
	case "attempt":
		err = attempt(ctx)
	case "loose":
		err = loose()
	default:
		err = fmt.Errorf("mode %q is none of host, inside, attempt, loose", mode)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}
