package wire

import "testing"

func TestPrincipal(t *testing.T) {
	for _, c := range []struct {
		want Op
		ops  []Operation
	}{
		{OpSequence, []Operation{&Sequence{}}},
		{OpExchangeID, []Operation{&ExchangeID{}}},
		{OpPutRootFH, []Operation{&Sequence{}, &PutRootFH{}, &GetFH{}}},
		{OpGetAttr, []Operation{&Sequence{}, &PutFH{}, &GetAttr{}}},
		{OpAccess, []Operation{&Sequence{}, &PutFH{}, &Access{}, &GetAttr{}}},
		{OpLookup, []Operation{&Sequence{}, &PutFH{}, &GetAttr{}, &Lookup{}, &GetFH{}, &Access{}, &GetAttr{}}},
		{OpOpen, []Operation{&Sequence{}, &PutFH{}, &Open{}, &GetFH{}, &Access{}, &GetAttr{}}},
		{OpRename, []Operation{&Sequence{}, &PutFH{}, &SaveFH{}, &PutFH{}, &Rename{}, &GetAttr{}, &RestoreFH{}, &GetAttr{}}},
		{OpRemove, []Operation{&Sequence{}, &PutFH{}, &Lookup{}, &GetAttr{}, &PutFH{}, &Remove{}, &GetAttr{}}},
		{OpWrite, []Operation{&Sequence{}, &PutFH{}, &Write{}, &Commit{}, &GetAttr{}}},
		{OpReclaimComplete, []Operation{&Sequence{}, &ReclaimComplete{}}},
	} {
		if got := Principal(c.ops); got != c.want {
			t.Errorf("%v instead of %v", got, c.want)
		}
		if n := testing.AllocsPerRun(10, func() { Principal(c.ops) }); n != 0 {
			t.Errorf("%v: %v allocations", c.want, n)
		}
	}
	if all := Names(); all[OpRead] != "READ" || all[OpRemoveXattr] != "REMOVEXATTR" || all[0] != "" {
		t.Errorf("%q", all)
	}
}
