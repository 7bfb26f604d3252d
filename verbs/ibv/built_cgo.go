//go:build cgo && linux

package ibv

// Built says that this program can load rdma-core's libraries.
const Built = true
