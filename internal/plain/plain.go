// Package plain makes text of others fit for a terminal and a log.
//
// A server, another user's daemon and the mount table (the user who mounts chooses
// the words in it) send strings that the commands print, root's among them. A
// terminal takes control characters in them for orders, and line ends and
// bidirectional overrides let one text look like another. Everything printed
// goes through Text, by Fprintf or Lines; JSON through JSON.
//
// The package keeps no state and starts no goroutine.
package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is s with everything escaped that has no glyph of its own: control
// characters, line ends and tabs too, DEL, C1, bidirectional and other format
// characters as Go writes them (\x1b, \u202e), and bytes that are no UTF-8
// (\x9b). What is plain already stays as it is, backslashes included.
func Text(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsGraphic(r):
			b.WriteString(s[:n])
		default:
			b.WriteString(escape(r))
		}
		s = s[n:]
	}
	return b.String()
}

func isPlain(s string) bool {
	for i, r := range s {
		if !unicode.IsGraphic(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			return false
		}
	}
	return true
}

func escape(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 1<<16:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// Fprintf is fmt.Fprintf with plain arguments. Line ends and tabs of the format
// are kept.
func Fprintf(w io.Writer, format string, args ...any) {
	shown := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case error:
			shown[i] = Text(a.Error())
		case fmt.Stringer:
			shown[i] = Text(a.String())
		default:
			shown[i] = a
			if v := reflect.ValueOf(a); v.Kind() == reflect.String {
				shown[i] = Text(v.String())
			}
		}
	}
	_, _ = fmt.Fprintf(w, format, shown...)
}

// JSON is a JSON text, whose strings may hold what encoding/json leaves as it
// is, with that escaped: DEL, C1 and format characters. It has the same
// meaning as b.
func JSON(b []byte) []byte {
	var out bytes.Buffer
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == '\n' || unicode.IsGraphic(r):
			out.Write(b[:n])
		case r >= 1<<16:
			// RFC 8259 section 7: as a surrogate pair.
			r -= 1 << 16
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out.Bytes()
}

// Lines is a writer for a logger, which writes a message and a line end at
// once: the message becomes one plain line.
func Lines(w io.Writer) io.Writer { return lines{w} }

type lines struct{ w io.Writer }

func (l lines) Write(b []byte) (int, error) {
	text, ended := strings.CutSuffix(string(b), "\n")
	text = Text(text)
	if ended {
		text += "\n"
	}
	if _, err := io.WriteString(l.w, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// OneLine is an error's text on the one line that scripts and logs expect.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// WriteJSON writes v as an indented JSON text and a line end.
func WriteJSON(to io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := to.Write(JSON(b.Bytes()))
	return err
}
