// Package session is the session of NFSv4.1 and 4.2 (RFC 8881 sections 2.10 and 18.46) with one
// server: what makes each compound be carried out exactly once, and the client's lease.
package session
