// Package linuxclient tests the embedded server with the client of the Linux
// kernel, over TCP and over RDMA by its siw driver. It owns tests only: they
// need root and what package knfsd needs, and are skipped without.
package linuxclient
