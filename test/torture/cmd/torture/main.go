// Command torture compares mounts under faults with a model: see package torture.
package main

import (
	"os"

	"github.com/rdmafs/rdmafs/test/torture"
)

func main() { os.Exit(torture.Main(os.Args[1:])) }
