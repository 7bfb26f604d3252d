package main

import (
	"io"
	"log"
	"log/syslog"
	"os"

	"github.com/rdmafs/rdmafs/cmd/rdmafs/plain"
)

// newLogger logs to standard error in the foreground, to syslog otherwise.
// Without a syslog the words are dropped: nobody is there to read them. A
// message is one plain line, though words of a server are in it.
func newLogger(foreground bool, dir string) *log.Logger {
	if foreground {
		log.SetOutput(plain.Lines(os.Stderr)) // the requests that -d shows
		return log.New(plain.Lines(os.Stderr), "rdmafs: "+dir+": ", log.LstdFlags|log.Lmsgprefix)
	}
	var w io.Writer = io.Discard
	if s, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "rdmafs"); err == nil {
		w = plain.Lines(s)
	}
	return log.New(w, dir+": ", log.Lmsgprefix)
}
