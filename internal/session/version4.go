package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4"
	sessions "github.com/rdmafs/rdmafs/nfsclient/nfs4/session"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// mountVersion4 mounts with the first of the minor versions that the server has.
func (s *Session) mountVersion4(ctx context.Context) error {
	o := &s.cfg.Options
	minors := o.Minors()
	config := nfs4.Config{
		Host: s.cfg.Source.Host, Export: s.cfg.Source.Export,
		Caller: s.caller, RSize: o.RSize, WSize: o.WSize,
		// Nobody else may have the same name for himself: a server drops what it keeps of the
		// one when the other appears. After a daemon that was killed the server waits for
		// its lease time.
		Owner: []byte(fmt.Sprintf("rdmafs %s %s", machineName(), rand.Text())),
		Cred:  OwnCred(), MachineName: machineName(), Log: s.cfg.log(),
	}
	if _, err := rand.Read(config.Verifier[:]); err != nil {
		return err
	}
	for k, minor := range minors {
		config.Minor = minor
		c, err := nfs4.Mount(ctx, config)
		if err == nil {
			s.client = c
			return nil
		}
		if k+1 == len(minors) || !lacksMinor(err) {
			return err
		}
		s.cfg.log().Info(fmt.Sprintf("%s does not have NFS version 4.%d", s.addr, minor))
	}
	return nil
}

// lacksMinor reports whether err says that the server does not have a minor version.
func lacksMinor(err error) bool {
	var refused *sessions.Error
	return errors.As(err, &refused) && refused.Status == wire.ErrMinorVersMismatch
}
