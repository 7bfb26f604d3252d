package main

import (
	"io"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/transport"
)

// printTerms prints, for a tabwriter, what both ends of an RDMA connection have
// agreed on.
func printTerms(w io.Writer, t *transport.Terms) {
	if t.Version == 0 {
		return // TCP
	}
	plain.Fprintf(w, "RPC-over-RDMA\tversion %d, inline threshold %d out, %d in\n", t.Version, t.InlineSend, t.InlineRecv)
	if t.Version == 2 {
		plain.Fprintf(w, "properties\treceive size %d here, %d at the server; backward calls %s here, %s at the server\n",
			t.ReceiveSize, t.PeerReceiveSize, t.Backward, t.PeerBackward)
	}
}
