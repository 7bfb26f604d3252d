package options

import (
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"time"
)

// LogLevels are the values of log=, the gravest first.
var LogLevels = []string{"error", "warn", "info", "debug"}

// LogLevel is the level that log= and debug ask for, a word of LogLevels.
func (o *Options) LogLevel() string {
	if o.Debug {
		return "debug"
	}
	return o.Log
}

// file is for options that name a file.
func file(set func(*Options, string)) setter {
	return func(o *Options, v string, has bool) error {
		if !has || !filepath.IsAbs(v) {
			return errors.New("wants an absolute path")
		}
		set(o, v)
		return nil
	}
}

func slow(o *Options, v string, has bool) error {
	d, err := time.ParseDuration(v)
	if !has || err != nil || d < time.Millisecond || d > time.Hour {
		return errors.New("wants a duration from 1ms to 1h, such as 500ms or 2s")
	}
	o.Slow = d
	return nil
}

// metrics takes unix:PATH, ADDRESS:PORT or :PORT, which is that of the loopback address.
func metrics(o *Options, v string, has bool) error {
	if path, unix := strings.CutPrefix(v, "unix:"); unix && filepath.IsAbs(path) {
		o.Metrics = v
		return nil
	}
	if strings.HasPrefix(v, ":") {
		v = "127.0.0.1" + v
	}
	if _, err := netip.ParseAddrPort(v); !has || err != nil {
		return errors.New("wants ADDRESS:PORT, :PORT for the loopback address, or unix:PATH with an absolute path")
	}
	o.Metrics = v
	return nil
}

func pprof(o *Options, v string, has bool) error {
	if path, unix := strings.CutPrefix(v, "unix:"); !has || !unix || !filepath.IsAbs(path) {
		return errors.New("wants unix:PATH with an absolute path")
	}
	o.PProf = v
	return nil
}
