package main

import (
	"io"
	"log"
	"log/syslog"
	"os"
)

// newLogger logs to standard error in the foreground, to syslog otherwise.
// Without a syslog the words are dropped: nobody is there to read them.
func newLogger(foreground bool, dir string) *log.Logger {
	if foreground {
		return log.New(os.Stderr, "rdmafs: "+dir+": ", log.LstdFlags|log.Lmsgprefix)
	}
	var w io.Writer = io.Discard
	if s, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "rdmafs"); err == nil {
		w = s
	}
	return log.New(w, dir+": ", log.Lmsgprefix)
}
