package torture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/test/hostile"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/nfsd/script"
	script4 "github.com/rdmafs/rdmafs/test/nfsd/v4/script"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/roce"
)

// place says what a server serves and where.
type place struct {
	Dir       string
	ID        uint32
	Lossy     bool
	Transport string
	Addr      string
	Seed      uint64
	// Vers is the version of NFS.
	Vers string
	// Proxy lets records of TCP be tampered with.
	Proxy bool
	// Lies: the server accepts the command to lie.
	Lies bool
}

var nfsVersions = map[string]nfsd.Versions{"3": nfsd.V3, "4.1": nfsd.V41, "4.2": nfsd.V42}

// Times of version 4. A server that is started anew knows of no client that could reclaim something,
// and has no grace period.
const (
	lease = 20 * time.Second
	grace = 5 * time.Second
)

const (
	tcpPort  = 2049
	rdmaPort = 20049
)

// RunServer is the main function of a server. It prints "ready", and answers each
// line of standard input: a command of package script, "4" and one of version 4's, "crash", "struck", "stats",
// or, of a server that lies, "lie" with the name of a lie, "told" and "truth", both of which
// are answered with how often the lie was told.
func RunServer(arg string) error {
	var p place
	if err := json.Unmarshal([]byte(arg), &p); err != nil {
		return err
	}
	syscall.Umask(0)
	signal.Ignore(syscall.SIGPIPE)
	sc := script.New(p.Seed)
	liar := hostile.New(nil, p.Seed)
	wrap := sc.Wrap
	if p.Lies {
		// Each listener asks for the handler; it is the same for all.
		var once sync.Once
		wrap = func(h transport.Handler) transport.Handler {
			once.Do(func() { liar.Handler = h })
			return liar
		}
	}
	cfg := nfsd.Config{
		Exports:  []nfsd.Export{{Dir: p.Dir, Path: "/export", ID: p.ID, Squash: nfsd.SquashNone, Async: true, Lossy: p.Lossy}},
		Versions: nfsVersions[p.Vers],
		Wrap:     wrap,
		Log:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	sc4 := script4.New()
	if p.Vers != "3" {
		cfg.Lease, cfg.Grace, cfg.Delegations = lease, grace, true
		cfg.Faults = &nfsd.Faults{Operation: sc4.Operation, Offload: sc4.Offload}
		cfg.Wrap = func(h transport.Handler) transport.Handler { return wrap(sc4.Wrap(h)) }
	}
	s, err := nfsd.New(cfg)
	if err != nil {
		return err
	}
	sc4.Attach(s)
	at := fmt.Sprintf("%s:%d", p.Addr, tcpPort)
	if p.Proxy {
		inner, err := s.ListenTCP("127.0.0.1:0")
		if err != nil {
			return err
		}
		ln, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		sc.Proxy(ln, inner.String())
	} else if _, err := s.ListenTCP(at); err != nil {
		return err
	}
	if p.Transport != "tcp" {
		var dev verbs.Device
		if p.Transport == "roce" {
			dev = roce.Open(roce.Config{})
		} else {
			dev = iwarp.Open(iwarp.Config{})
		}
		if _, err := s.ListenRDMA(sc.Device(dev), fmt.Sprintf("%s:%d", p.Addr, rdmaPort), rpcrdma.ServerConfig{}); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var err error
		switch line := strings.TrimSpace(lines.Text()); line {
		case "crash":
			err = s.Crash()
		case "struck":
			fmt.Println(sc.Struck())
			continue
		case "stats":
			var b []byte
			if b, err = json.Marshal(s.Stats()); err == nil {
				fmt.Println(string(b))
				continue
			}
		case "told":
			fmt.Println(liar.Applied())
			continue
		case "truth":
			fmt.Println(liar.Set(nil))
			continue
		default:
			if name, is := strings.CutPrefix(line, "lie "); is {
				err = setLie(liar, liesOf(p.Vers), name)
			} else if order, is := strings.CutPrefix(line, "4 "); is {
				err = sc4.Do(order)
			} else {
				err = sc.Do(line)
			}
		}
		if err != nil {
			fmt.Println("failed:", err)
		} else {
			fmt.Println("done")
		}
	}
	return nil // its end is the process's, as with kill
}

func setLie(l *hostile.Liar, lies []hostile.Lie, name string) error {
	for _, lie := range lies {
		if lie.Name == name {
			l.Set(&lie)
			return nil
		}
	}
	return fmt.Errorf("no lie %q", name)
}
