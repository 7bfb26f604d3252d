// Command rdmafs-nfsd serves directories over NFSv3, 4.1 and 4.2, by TCP and by RDMA, until
// SIGTERM or SIGINT. When it is ready it prints a line
//
//	ready tcp=ADDRESS rdma=ADDRESS roce=ADDRESS
//
// on stdout, with the transports it serves, and on SIGUSR1 its counters as a line
// of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/roce"
)

type options struct {
	cfg      nfsd.Config
	tcp      string
	rdma     string
	roce     string
	crc      bool
	inline   int
	credits  int
	versions rpcrdma.Versions
	readread bool
	rpcbind  string
	tls      nfsd.TLS
	keytab   string
	stats    bool
	verbose  bool
}

func main() {
	// Clients say which modes they want.
	syscall.Umask(0)
	sig := make(chan os.Signal, 4)
	signal.Notify(sig, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	err := run(os.Args[1:], os.Stdout, sig)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "rdmafs-nfsd:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("rdmafs-nfsd", flag.ContinueOnError)
	f.Func("export", "`DIR[:option,…]` to export, may be repeated; options: ro, async, lossy, root_squash,\n"+
		"no_root_squash, all_squash, anonuid=, anongid=, path=, id=, secure, inode_handles, acl, sec=FLAVOR[+FLAVOR…]", func(v string) error {
		x, err := nfsd.ParseExport(v)
		o.cfg.Exports = append(o.cfg.Exports, x)
		return err
	})
	f.StringVar(&o.tcp, "tcp", "127.0.0.1:2049", "`address` to serve by TCP; empty for none")
	f.StringVar(&o.rdma, "rdma", "127.0.0.1:20049", "`address` to serve by RDMA (iWARP); empty for none")
	f.StringVar(&o.roce, "roce", "", "`address` to serve by RDMA over RoCEv2, which takes UDP port 4791 of it; empty for none")
	f.BoolVar(&o.crc, "crc", false, "ask iWARP clients for CRC32C")
	f.IntVar(&o.inline, "inline", 8192, "inline threshold both ways, in `bytes`")
	f.IntVar(&o.credits, "credits", 128, "most calls under way for an RDMA `client`")
	o.versions = rpcrdma.AllVersions
	f.Func("rdmavers", "only this `version` of RPC-over-RDMA, 1 or 2; default: both", func(v string) error {
		switch v {
		case "1":
			o.versions = rpcrdma.Versions{Low: rpcrdma.Version1, High: rpcrdma.Version1}
		case "2":
			o.versions = rpcrdma.Versions{Low: rpcrdma.Version2, High: rpcrdma.Version2}
		default:
			return errors.New("neither 1 nor 2")
		}
		return nil
	})
	f.BoolVar(&o.readread, "readread", false, "open replies that fit nowhere else to the client, for RDMA Read and RDMA_DONE")
	f.Func("vers", "`versions` of NFS to serve, of 3, 4.1 and 4.2, separated by commas; default: 3", func(v string) (err error) {
		o.cfg.Versions, err = nfsd.ParseVersions(v)
		return err
	})
	f.BoolVar(&o.cfg.Delegations, "delegations", false, "grant delegations to clients of version 4 that can be called back")
	f.DurationVar(&o.cfg.Lease, "lease", 0, "`time` that a client of version 4 may be silent; default: 90s")
	f.DurationVar(&o.cfg.Grace, "grace", 0, "`time` to reclaim locks and open files after a restart; default: none")
	f.IntVar(&o.cfg.MaxIO, "maxio", 1<<20, "largest READ and WRITE, in `bytes`")
	lossy := f.Bool("lossy", false, "keep unstable writes of every export in memory until COMMIT")
	async := f.Bool("async", false, "answer changes of names before they are on disk, for every export")
	sec := f.String("sec", "sys", "`flavors` of security for exports without sec=: sys, krb5, krb5i, krb5p, separated by commas")
	f.StringVar(&o.keytab, "keytab", "", "`file` with the keys of the service nfs, for Kerberos; principals are users of this machine")
	f.StringVar(&o.rpcbind, "rpcbind", "", "register with the rpcbind at this `socket or address`, like /run/rpcbind.sock")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "`file` with the certificate for TLS (RFC 9289), in PEM; with -tls-key")
	f.StringVar(&o.tls.Key, "tls-key", "", "`file` with its private key")
	f.StringVar(&o.tls.ClientCA, "tls-client-ca", "", "`file` with the authorities whose certificates clients must show")
	f.Func("tls", "allow|require: whether NFS by TCP may come in clear text beside TLS; MOUNT and NLM always may (default allow)", func(v string) error {
		if v != "allow" && v != "require" {
			return errors.New("neither allow nor require")
		}
		o.tls.Require = v == "require"
		return nil
	})
	f.BoolVar(&o.stats, "stats", false, "print the counters at the end")
	f.BoolVar(&o.verbose, "v", false, "log connections on stderr")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	flavors, err := nfsd.ParseSecurity(*sec, ",")
	if err != nil {
		return nil, err
	}
	if o.keytab != "" {
		acceptor, err := krb5.NewAcceptor(o.keytab, "nfs")
		if err != nil {
			return nil, err
		}
		o.cfg.Kerberos = &nfsd.Kerberos{Acceptor: acceptor, Users: nfsd.LocalUsers(acceptor.Realm())}
	}
	for i := range o.cfg.Exports {
		x := &o.cfg.Exports[i]
		if len(x.Security) == 0 {
			x.Security = flavors
		}
		if o.keytab == "" && slices.ContainsFunc(x.Security, func(f uint32) bool { return f >= nfsd.SecKrb5 }) {
			return nil, fmt.Errorf("export %s: Kerberos needs -keytab", x.Dir)
		}
		o.cfg.Exports[i].Lossy = o.cfg.Exports[i].Lossy || *lossy
		o.cfg.Exports[i].Async = o.cfg.Exports[i].Async || *async
	}
	switch {
	case o.tls.Cert != "" && o.tls.Key != "" && o.tcp != "":
		o.cfg.TLS = &o.tls
	case o.tls != nfsd.TLS{}:
		return nil, errors.New("TLS needs -tls-cert and -tls-key, and -tcp")
	}
	if o.tcp == "" && o.rdma == "" && o.roce == "" {
		return nil, errors.New("neither -tcp, nor -rdma, nor -roce: nothing to serve on")
	}
	return o, nil
}

func run(args []string, out io.Writer, sig <-chan os.Signal) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	s, err := nfsd.New(o.cfg)
	if err != nil {
		return err
	}
	var devs []verbs.Device
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		for _, dev := range devs {
			if cerr := dev.Close(); err == nil {
				err = cerr
			}
		}
	}()
	ready := "ready"
	if o.tcp != "" {
		at, err := s.ListenTCP(o.tcp)
		if err != nil {
			return err
		}
		ready += " tcp=" + at.String()
	}
	for _, x := range []struct {
		name, addr string
		open       func() verbs.Device
	}{
		{"rdma", o.rdma, func() verbs.Device { return iwarp.Open(iwarp.Config{CRC: o.crc}) }},
		{"roce", o.roce, func() verbs.Device { return roce.Open(roce.Config{}) }},
	} {
		if x.addr == "" {
			continue
		}
		dev := x.open()
		devs = append(devs, dev)
		cfg := rpcrdma.ServerConfig{InlineIn: o.inline, InlineOut: o.inline, Credits: o.credits, Versions: o.versions, ReadReplies: o.readread}
		if o.verbose {
			cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		at, err := s.ListenRDMA(dev, x.addr, cfg)
		if err != nil {
			return err
		}
		ready += " " + x.name + "=" + at.String()
	}
	if o.rpcbind != "" {
		if err := rpcbind(o, s.Register); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rpcbind(o, s.Unregister)) }()
	}
	if _, err := fmt.Fprintln(out, ready); err != nil {
		return err
	}
	for v := range sig {
		if v != syscall.SIGUSR1 {
			break
		}
		if err := print(out, s); err != nil {
			return err
		}
	}
	if o.stats {
		return print(out, s)
	}
	return nil
}

// rpcbind has do talk to rpcbind, but not for long.
func rpcbind(o *options, do func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return do(ctx, o.rpcbind)
}

func print(out io.Writer, s *nfsd.Server) error {
	b, err := json.Marshal(s.Stats())
	if err == nil {
		_, err = fmt.Fprintln(out, strings.TrimSpace(string(b)))
	}
	return err
}
