// Command image builds the pinned image of a core from a static program:
//
//	go run ./ci/image --binary out/core/core --out out/images/core
//
// It prints one JSON object; its "ref" is the value of sandbox.image.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"glovebox/ci/image/recipe"
)

func main() {
	binary := flag.String("binary", "", "static program that keeps core/CONTRACT.md")
	out := flag.String("out", "", "folder of the OCI layout, replaced if it is one")
	flag.Parse()
	if *binary == "" || *out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "image: give --binary FILE and --out FOLDER")
		os.Exit(2)
	}
	built, err := recipe.Build(*binary, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image: "+err.Error())
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(built); err != nil {
		fmt.Fprintln(os.Stderr, "image: "+err.Error())
		os.Exit(1)
	}
}
