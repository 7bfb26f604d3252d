// Package interop runs rdmafs against the Linux kernel: its NFS/RDMA server
// mounted by the rdmafs command, and its NFS/RDMA client mounting the embedded
// server. The tests need the build tag knfsd; make test-knfsd sets it.
package interop
