package cache

import (
	"testing"
	"unsafe"
)

// TestSizes: what a name and an inode are, in the allocator's classes of sizes. The next
// larger ones are 224 and 80.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(Inode{}); n > 208 {
		t.Errorf("an inode takes %d bytes", n)
	}
	if n := unsafe.Sizeof(dentry{}); n > 64 {
		t.Errorf("a name takes %d bytes", n)
	}
}
