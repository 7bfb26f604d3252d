package session

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

// Config is what the session was made from.
func (s *Session) Config() *Config { return &s.cfg }

// Options are those in force.
func (s *Session) Options() options.Options {
	if o := s.changed.Load(); o != nil {
		return *o
	}
	return s.cfg.Options
}

// How names the way to the server: "tcp", "rdma/iwarp".
func (s *Session) How() string { return s.route.How }

// Encryption is what the last connection agreed on (xprtsec=), in words; "" for clear text.
func (s *Session) Encryption() string { return s.route.Encryption() }

// EncryptedUntil is when the first of the server's certificates ends, and the file of this host's private key if others
// may read it.
func (s *Session) EncryptedUntil() (until time.Time, exposedKey string) {
	return s.route.EncryptedUntil()
}

// Security is how the server knows who calls: a word of sec=.
func (s *Session) Security() string { return s.cfg.security().name }

// Server is the address that the session is connected to.
func (s *Session) Server() netip.AddrPort { return s.addr }

// Client is the export; nil before MountExport.
func (s *Session) Client() nfsclient.Client { return s.client }

// Cache is the cache over the export; nil before StartCache.
func (s *Session) Cache() *cache.Cache { return s.cache }

// Stats counts how calls travelled.
func (s *Session) Stats() transport.Stats { return s.caller.Stats() }

// Opened is when the session was made.
func (s *Session) Opened() time.Time { return s.opened }

// BufferBytes is what the cache's buffers may take.
func (s *Session) BufferBytes() int { return s.pool.Limit() }

// Note says what a limit on locked memory costs the session; "" if nothing.
func (s *Session) Note() string { return s.route.Memory.Note }

// Keys are what an RDMA device gives the server to reach memory by; ok is false
// over TCP.
func (s *Session) Keys() (k providers.Keys, ok bool) { return s.route.Keys() }

// LoweredMTU is the path MTU that RoCE keeps to because larger packets were lost,
// 0 if none were.
func (s *Session) LoweredMTU() int { return s.route.LoweredMTU(s.addr.Addr()) }

// Versions asks the server for its versions of RPC-over-RDMA, on a connection of
// its own.
func (s *Session) Versions(ctx context.Context) (low, high uint32, err error) {
	return s.route.Versions(ctx)
}
