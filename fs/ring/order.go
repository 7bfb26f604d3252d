//go:build !race

package ring

// toKernel and fromKernel tell the race detector of the kernel's order.
func toKernel()   {}
func fromKernel() {}
