// Command now prints the wall clock as the product's programs see it.
package main

import (
	"fmt"

	"glovebox/system/platform/clock"
)

func main() { fmt.Println(clock.Now().Unix()) }
