package krb5

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// profile is what a file like krb5.conf(5) says: sections of relations KEY = VALUE, and of relations KEY = { … } with
// more of them. What nobody asks for is not looked at: other programs have much of their own in there.
type profile struct {
	relations []relation
}

// relation is one KEY = VALUE. in is its section, and the names of the braces that it is in, each behind a slash.
type relation struct{ in, key, value string }

// maxBraces bounds how deep braces stand in each other.
const maxBraces = 8

var errBraces = errors.New("a brace has no counterpart, or there are too many")

func parseProfile(text string) (profile, error) {
	var p profile
	var in []string // the section and the braces around
	for n, line := range slices.Collect(strings.Lines(text)) {
		if at := strings.IndexAny(line, "#;"); at >= 0 {
			line = line[:at]
		}
		line = strings.TrimSpace(line)
		key, value, related := strings.Cut(line, "=")
		key = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(key), "*")) // final: what follows does not count in other files
		value = strings.TrimSpace(value)
		switch {
		case line == "":
		case line[0] == '[':
			name, _, closed := strings.Cut(line[1:], "]")
			if !closed || len(in) > 1 {
				return p, fmt.Errorf("line %d: %w", n+1, errBraces)
			}
			in = []string{strings.TrimSpace(name)}
		case line[0] == '}':
			if len(in) < 2 {
				return p, fmt.Errorf("line %d: %w", n+1, errBraces)
			}
			in = in[:len(in)-1]
		case !related || len(in) == 0: // nothing that is known
		case value == "{":
			if in = append(in, key); len(in) > maxBraces {
				return p, fmt.Errorf("line %d: %w", n+1, errBraces)
			}
		default:
			p.relations = append(p.relations, relation{strings.Join(in, "/"), key, unquoted(value)})
		}
	}
	if len(in) > 1 {
		return p, fmt.Errorf("at the end: %w", errBraces)
	}
	return p, nil
}

// unquoted is a value without the quotes around it.
func unquoted(value string) string {
	if s, err := strconv.Unquote(value); err == nil && value[0] == '"' {
		return s
	}
	return value
}

// first is the value that counts where a key has several: drop-ins are included before.
func (p *profile) first(in, key string) string {
	for _, r := range p.relations {
		if r.in == in && r.key == key {
			return r.value
		}
	}
	return ""
}

// truth is the first value of a key as one that is true or false; what is neither is the default.
func (p *profile) truth(in, key string, normally bool) bool {
	switch strings.ToLower(p.first(in, key)) {
	case "y", "yes", "t", "true", "1", "on":
		return true
	case "n", "no", "f", "false", "nil", "0", "off":
		return false
	}
	return normally
}

// number is the first value of a key as a number that is not negative.
func (p *profile) number(in, key string, normally int) int {
	if n, err := strconv.ParseUint(p.first(in, key), 10, 31); err == nil {
		return int(n)
	}
	return normally
}

// maxSpan bounds durations: no ticket lasts that long.
const maxSpan = 10 * 365 * 24 * time.Hour

// span is the first value of a key as a duration: 36000, 10h, 1d 12h 30m, 10:30, 10:30:00.
func (p *profile) span(in, key string, normally time.Duration) time.Duration {
	if d, ok := parseSpan(p.first(in, key)); ok {
		return d
	}
	return normally
}

func parseSpan(s string) (total time.Duration, ok bool) {
	units := map[byte]time.Duration{'d': 24 * time.Hour, 'h': time.Hour, 'm': time.Minute, 's': time.Second}
	if hours, rest, timed := strings.Cut(s, ":"); timed {
		minutes, seconds, _ := strings.Cut(rest, ":")
		s = hours + "h" + minutes + "m" + seconds
	}
	for s = strings.ReplaceAll(s, " ", ""); s != ""; {
		end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		unit := time.Second
		digits := s
		if end >= 0 {
			digits = s[:end]
			if unit = units[s[end]]; unit == 0 {
				return 0, false
			}
			s = s[end+1:]
		} else {
			s = ""
		}
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || time.Duration(n) > maxSpan/unit {
			return 0, false
		}
		total += time.Duration(n) * unit
	}
	return total, total > 0 && total <= maxSpan
}
