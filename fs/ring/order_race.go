//go:build race

package ring

import "sync/atomic"

// handed stands for the order that the kernel keeps between requests: it calls for the next
// part of a directory, say, when it has the answer to the last. The race detector knows that of
// read(2) and write(2), but not of io_uring.
var handed atomic.Uint64

// toKernel comes before an answer is submitted, fromKernel after a request is there.
func toKernel()   { handed.Add(1) }
func fromKernel() { handed.Add(1) }
