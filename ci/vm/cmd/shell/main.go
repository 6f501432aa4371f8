// Command shell runs a folder in the virtual machine: DIR/run is started there as
// root, and what it leaves in its folder out/ comes back in OUT.
//
//	go run ./ci/vm/cmd/shell DIR OUT
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"glovebox/ci/vm"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: shell DIR OUT")
		os.Exit(2)
	}
	ctx := context.Background()
	img, err := vm.Cached(ctx, ".cache/vm")
	if err == nil {
		started := time.Now()
		err = vm.Boot(ctx, img, vm.Options{Input: os.Args[1], Output: os.Args[2], MemoryMiB: 3072, Processors: 2, Timeout: 5 * time.Minute})
		fmt.Printf("the machine ran for %.1f s\n", time.Since(started).Seconds())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
