package metrics

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	httppprof "net/http/pprof"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves the metrics of mounts on /metrics.
func Handler(mounts Source) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{mounts})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorHandling: promhttp.HTTPErrorOnError}))
	return mux
}

// Profiles serves net/http/pprof.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", httppprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", httppprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", httppprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", httppprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", httppprof.Trace)
	return mux
}

// Listen listens on ADDRESS:PORT or unix:PATH. A socket can be connected to by this user (and root) alone: Listen sets the
// umask meanwhile, so it is for a process that does nothing else yet. A socket that nobody listens on any more is replaced.
func Listen(at string) (net.Listener, error) {
	path, unix := strings.CutPrefix(at, "unix:")
	if !unix {
		return net.Listen("tcp", at)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("%s: another process listens there", path)
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
			_ = os.Remove(path) // Listen says what is wrong
		}
	}
	before := syscall.Umask(0o177)
	defer syscall.Umask(before)
	return net.Listen("unix", path)
}

// Server serves HTTP on a listener.
type Server struct {
	http   http.Server
	joined sync.WaitGroup
}

// Bounds of a request and its answer; a CPU profile takes as long as it is asked for.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 2 * time.Minute
	maxHeader    = 16 << 10
)

// Serve serves h on ln until Close.
func Serve(ln net.Listener, h http.Handler) *Server {
	s := &Server{http: http.Server{Handler: h, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, MaxHeaderBytes: maxHeader}}
	s.joined.Add(1)
	go s.runServe(ln)
	return s
}

func (s *Server) runServe(ln net.Listener) {
	defer s.joined.Done()
	_ = s.http.Serve(ln) // ends with Close
}

// Close ends it, and requests under way.
func (s *Server) Close() {
	_ = s.http.Close()
	s.joined.Wait()
}
