package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nlm"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
)

// connectError is a failed connection, and what may help.
type connectError struct {
	what string
	err  error
	hint string
}

func (e *connectError) Error() string {
	if e.hint == "" {
		return fmt.Sprintf("%s: %v", e.what, e.err)
	}
	return fmt.Sprintf("%s: %v (%s)", e.what, e.err, e.hint)
}

func (e *connectError) Unwrap() error { return e.err }

// explainConnect says what a failed connection means and what may help.
func (s *Session) explainConnect(err error) error {
	what := fmt.Sprintf("cannot connect to %s over %s", s.addr, s.route.How)
	o := &s.cfg.Options
	var netErr net.Error
	_, cure, encryption := providers.Encryption(err)
	hint := ""
	switch {
	case providers.SelfExplained(err):
	case encryption:
		hint = cure
	case errors.Is(err, syscall.ECONNREFUSED) && o.Proto == "rdma":
		hint = "nothing listens there: does the server have NFS over RDMA enabled on that port? try proto=tcp"
	case errors.Is(err, syscall.EADDRNOTAVAIL) && o.SrcAddr.IsValid():
		hint = fmt.Sprintf("srcaddr=%s is no address of this host", o.SrcAddr)
	case errors.Is(err, syscall.EADDRINUSE):
		// The provider says what to do.
	case errors.Is(err, context.Canceled):
		hint = "no answer yet, and another way was refused"
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "nothing listens there: is the NFS server running? is port= right?"
	case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
		hint = "there is no route: is the address right, and is the network up?"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), errors.As(err, &netErr) && netErr.Timeout():
		hint = "no answer: is the host up, and does a firewall drop the port?"
	case o.Proto == "rdma":
		hint = "is an NFS/RDMA server on that port, and on a device of the same kind? try proto=tcp"
	}
	return &connectError{what, err, hint}
}

// Explain takes an error of this package apart: what happened, and what may help.
func Explain(err error) (what, remedy string) {
	var ce *connectError
	var me *nfs3.MountError
	var le *nlm.Error
	var ke *kerberosError
	var te *krb5.Error
	switch {
	case errors.As(err, &ke):
		bare := *ke
		bare.hint = ""
		return bare.Error(), ke.hint
	case errors.As(err, &te):
		return plain.OneLine(te.Err), te.Hint
	case errors.As(err, &ce):
		bare := *ce
		bare.hint = ""
		return bare.Error(), ce.hint
	case errors.As(err, &me):
		bare := *me
		bare.Hint = ""
		return bare.Error(), me.Hint
	case errors.As(err, &le):
		bare := *le
		bare.Hint = ""
		return bare.Error(), le.Hint
	}
	if what, remedy, ok := providers.Explain(err); ok {
		return what, remedy
	}
	if what, remedy, ok := providers.Encryption(err); ok {
		return what, remedy
	}
	return plain.OneLine(err), nfs3.OtherVersion(err)
}

// NameSource starts an error with what was to be mounted, unless it does so
// already.
func NameSource(src source.Source, err error) error {
	var named *nfs3.MountError
	if errors.As(err, &named) {
		return err
	}
	return fmt.Errorf("%s: %w", src.Text, err)
}
