// Command torture holds mounts to a model while faults befall them: see package
// torture.
package main

import (
	"os"

	"github.com/rdmafs/rdmafs/test/torture"
)

func main() { os.Exit(torture.Main(os.Args[1:])) }
