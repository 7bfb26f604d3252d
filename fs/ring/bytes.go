package ring

import "unsafe"

// structBytes are the bytes of a structure of the kernel's, which has no
// pointers.
func structBytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

func sliceBytes(v []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 8*len(v))
}
