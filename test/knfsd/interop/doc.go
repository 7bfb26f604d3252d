// Package interop runs rdmafs against the Linux kernel: its NFS/RDMA server
// mounted by the rdmafs command on the host and in the guest itself, and its
// NFS/RDMA client mounting the embedded server. The tests need the build tag
// knfsd; make test-knfsd sets it. Those with the tag guest run in the guest,
// started by the others.
package interop
