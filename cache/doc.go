// Package cache is what stands between the kernel's file requests and the
// server: which attributes, names, rights and bytes may be answered from
// memory, and when written bytes reach stable storage.
package cache
