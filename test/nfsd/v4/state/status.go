package state

import "github.com/rdmafs/rdmafs/nfsclient"

// Statuses that NFSv3 has too.
const (
	errInval    = nfsclient.ErrInval
	errNotSupp  = nfsclient.ErrNotSupp
	errTooSmall = nfsclient.ErrTooSmall
)
