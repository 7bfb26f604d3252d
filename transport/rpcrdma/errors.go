package rpcrdma

import (
	"errors"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/credit"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/requester"
)

// ReplyError is an RDMA_ERROR sent in answer to a call.
type ReplyError = requester.ReplyError

var (
	// errLinkDead stands for the link's own error where a wait ended with it.
	errLinkDead = credit.ErrEnded
	errStalled  = errors.New("the peer takes no data")
)
