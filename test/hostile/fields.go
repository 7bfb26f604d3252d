package hostile

import (
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	wire4 "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// setStatus makes a failure of res. Each procedure's results start with their
// status; those that follow a failure are left as they are.
func setStatus(res wire.Message, s nfsclient.Status) bool {
	f := reflect.ValueOf(res).Elem().FieldByName("Status")
	if !f.IsValid() {
		return false
	}
	f.SetUint(uint64(s))
	return true
}

// anyField gives one field of res, chosen at random, a value that its type
// allows. The fields are those of the wire package: one that is added there is
// changed here, too.
func anyField(r *rand.Rand, _ uint32, res wire.Message) bool {
	var fields []reflect.Value
	collect(reflect.ValueOf(res).Elem(), &fields)
	if len(fields) == 0 {
		return false
	}
	spoil(r, fields[r.IntN(len(fields))])
	return true
}

// collect appends the fields below v that have a value of their own. "Plus" and a bitmap4
// stay: they say how the rest is encoded.
func collect(v reflect.Value, to *[]reflect.Value) {
	if v.Type() == reflect.TypeFor[wire4.Bitmap]() {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Plus" {
				collect(v.Field(i), to)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), to)
		}
	case reflect.Array:
		if v.Len() > 0 {
			*to = append(*to, v.Index(0))
		}
	default:
		if v.CanSet() {
			*to = append(*to, v)
		}
	}
}

// spoil puts one of the values at the ends of a type's range into v, or any.
func spoil(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		bits := v.Type().Bits()
		top := uint64(1)<<(bits-1) | (uint64(1)<<(bits-1) - 1)
		v.SetUint([]uint64{0, 1, top >> 1, top>>1 + 1, top, r.Uint64() & top, v.Uint() + 1&top}[r.IntN(7)])
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 1, r.Int64N(1 << 20)}[r.IntN(3)])
	case reflect.String:
		s := v.String()
		v.SetString([]string{"", "x", s + s, strings.Repeat("y", 255), "a/b", "\x00"}[r.IntN(6)])
	}
}
