package ctl

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestGoldenFrame(t *testing.T) {
	got, err := Append(nil, Frame{Kind: Output, ID: 0x01020304, Body: []byte("hi")})
	if err != nil {
		t.Fatal(err)
	}
	want := []byte{5, 1, 2, 3, 4, 0, 0, 0, 2, 'h', 'i'}
	if !bytes.Equal(got, want) {
		t.Fatalf("got % x, want % x", got, want)
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	whole, _ := Append(nil, Frame{Kind: Start, ID: 7, Body: []byte("true")})
	for n := range whole {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := Read(bytes.NewReader(whole[:n])); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
	}
}

func TestBounds(t *testing.T) {
	if _, err := Append(nil, Frame{Kind: Output, Body: make([]byte, MaxBody+1)}); !errors.Is(err, ErrTooLong) {
		t.Errorf("append: %v", err)
	}
	for _, c := range []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"length", []byte{5, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, ErrTooLong},
		{"kind zero", make([]byte, headSize), ErrKind},
		{"kind beyond", []byte{byte(kinds), 0, 0, 0, 0, 0, 0, 0, 0}, ErrKind},
	} {
		if _, err := Read(bytes.NewReader(c.bytes)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestCode(t *testing.T) {
	for _, code := range []int{0, 1, 255, -1} {
		if got, err := Code(AppendCode(nil, code)); err != nil || got != code {
			t.Errorf("code %d: %d, %v", code, got, err)
		}
	}
	for n := range 6 {
		if _, err := Code(make([]byte, n)); (err == nil) != (n == 4) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for kind := Kind(0); kind <= kinds; kind++ {
		seed, _ := Append(nil, Frame{Kind: kind, ID: uint32(kind), Body: []byte("seed")})
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := Append(nil, frame)
		if err != nil || !bytes.HasPrefix(b, again) {
			t.Fatalf("% x is read as %+v, written as % x (%v)", b, frame, again, err)
		}
	})
}
