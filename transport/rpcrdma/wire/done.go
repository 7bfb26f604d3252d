package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Done is RDMA_DONE (RFC 5666 section 3.8; RFC 8166 dropped it): the requester has fetched the read chunks of a reply.
type Done struct{ Header }

func (m *Done) Append(w *xdr.Writer) { m.Header.append(w) }

func (m *Done) Parse(b []byte) (int, error) {
	m.Header.parse(b)
	return FixedLen, nil
}
