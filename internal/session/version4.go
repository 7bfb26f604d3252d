package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4"
	sessions "github.com/rdmafs/rdmafs/nfsclient/nfs4/session"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// cachedSecured is the length of replies that are to be kept of calls with Kerberos. Of what
// was asked for Linux holds 400 bytes back with krb5i, and 800 with krb5p, so that of the
// usual 1024 too little is left for the reply to an OPEN that creates; it keeps 2048 at most.
const cachedSecured = 2048

// mountVersion4 mounts with the first of the minor versions that the server has.
func (s *Session) mountVersion4(ctx context.Context) error {
	o := &s.cfg.Options
	minors := o.Minors()
	config := nfs4.Config{
		Host: s.cfg.Source.Host, Export: s.cfg.Source.Export,
		Caller: s.caller4(), Binder: &s.binder, RSize: o.RSize, WSize: o.WSize,
		Cred: OwnCred(), MachineName: machineName(), Callbacks: s.cfg.callbacks, Log: s.cfg.log(),
		IDMap: readIDMap(idmapFile, s.cfg.log()), Private: s.cfg.security().service == rpcsecgss.Privacy,
	}
	if s.cfg.security().service != 0 {
		config.Cached = cachedSecured
	}
	if _, err := rand.Read(config.Verifier[:]); err != nil {
		return err
	}
	owner := s.takeOwner4()
	for k := 0; ; {
		config.Owner, config.Minor = owner.id, minors[k]
		c, err := nfs4.Mount(ctx, config)
		switch {
		case err == nil:
			s.client, s.owner = c, owner
			return nil
		case answered(err, wire.ErrClientIDInUse) && owner.found:
			// The server keeps it for other credentials, and does so until the lease has ended.
			if err = owner.renew(); err == nil {
				continue
			}
		case k+1 < len(minors) && answered(err, wire.ErrMinorVersMismatch):
			s.cfg.log().Info(fmt.Sprintf("%s does not have NFS version 4.%d", s.addr, minors[k]))
			k++
			continue
		}
		if failed := owner.release(!owner.found); failed != nil {
			s.cfg.log().Info(fmt.Sprintf("forgetting the client's name: %v", failed))
		}
		return err
	}
}

// answered reports whether err says that the server has refused a session with this status.
func answered(err error, st wire.Status) bool {
	var refused *sessions.Error
	return errors.As(err, &refused) && refused.Status == st
}

// Refuses reports whether err is a server's answer after which an older version is tried, where the options leave the
// version to the server.
func Refuses(err error) bool {
	lacks, declines := refusesVersion4(err)
	return lacks || declines
}

// refusesVersion4 reports whether err is a server's answer after which mount.nfs(8) tries version 3: it lacks version 4, or it
// declines to serve the export by it. A server that does not answer does neither.
func refusesVersion4(err error) (lacks, declines bool) {
	var rpc *transport.RPCError
	var mount *nfs4.MountError
	switch {
	case answered(err, wire.ErrMinorVersMismatch):
		return true, false
	case errors.As(err, &rpc) && !rpc.Denied && (rpc.Code == uint32(transport.ProgMismatch) || rpc.Code == uint32(transport.ProgUnavail)):
		return true, false
	case errors.As(err, &mount) && (mount.Failure == nfs3.NoExport || mount.Failure == nfs3.NoFlavor || mount.Failure == nfs3.NotPermitted):
		return false, true
	}
	return false, false
}
