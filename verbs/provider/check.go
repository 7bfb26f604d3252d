package provider

import (
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/verbs"
)

// CheckOptions refuses options that caps do not allow.
func CheckOptions(o *verbs.ConnOptions, caps *verbs.Caps) error {
	switch {
	case len(o.PrivateData) > caps.MaxPrivateData:
		return errPrivate(caps.Provider, len(o.PrivateData), caps.MaxPrivateData)
	case o.SendQueue < 1 || o.SendQueue > caps.MaxQueue, o.RecvQueue < 1 || o.RecvQueue > caps.MaxQueue:
		return fmt.Errorf("%s: queues of %d and %d requests, want 1 to %d", caps.Provider, o.SendQueue, o.RecvQueue, caps.MaxQueue)
	case o.ReadsIn < 0 || o.ReadsIn > caps.MaxReadDepth, o.ReadsOut < 0 || o.ReadsOut > caps.MaxReadDepth:
		return fmt.Errorf("%s: read depths of %d and %d, at most %d", caps.Provider, o.ReadsIn, o.ReadsOut, caps.MaxReadDepth)
	}
	return nil
}

// RejectData is the private data to reject a request with: none, and an error,
// if it is longer than most.
func RejectData(provider string, private []byte, most int) ([]byte, error) {
	if len(private) > most {
		return nil, errPrivate(provider, len(private), most)
	}
	return private, nil
}

func errPrivate(provider string, n, most int) error {
	return fmt.Errorf("%s: private data of %d bytes, at most %d", provider, n, most)
}

// ErrAnswered is returned for a connection request that has been accepted or
// rejected before.
var ErrAnswered = errors.New("connection request answered twice")

// CheckSend reports what breaks the rules of a work request's Op, "" if nothing
// does. total is the length of Local, readsOut what set-up left of
// ConnOptions.ReadsOut. The caller checks that Local lies in registered memory,
// and the window of an OpBind.
func CheckSend(wr *verbs.SendWR, total, readsOut int) (why string) {
	switch wr.Op {
	case verbs.OpSend, verbs.OpSendInvalidate, verbs.OpLocalInvalidate:
	case verbs.OpWrite, verbs.OpRead:
		switch {
		case wr.Addr > ^uint64(0)-uint64(total):
			return "remote address wraps"
		case wr.Op == verbs.OpRead && len(wr.Local) != 1:
			return "a Read has one segment"
		case wr.Op == verbs.OpRead && readsOut == 0:
			return "the peer takes no Reads"
		}
	case verbs.OpBind:
		switch {
		case len(wr.Local) != 1 || total == 0:
			return "a window is bound to one segment"
		case wr.Access == 0 || wr.Access&^(verbs.RemoteRead|verbs.RemoteWrite) != 0:
			return "no such access"
		}
	default:
		return "no such operation"
	}
	return ""
}
