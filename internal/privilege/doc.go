// Package privilege reports what this process may do: mount, bind reserved ports,
// lock memory, and gain privileges by fusermount3.
//
// It asks the kernel each time, keeps no state, starts no goroutine and changes
// nothing.
package privilege
