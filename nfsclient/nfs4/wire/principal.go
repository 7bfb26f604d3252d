package wire

// The ranks of operations in a compound: what the others are there for has the highest.
const (
	rankSequence = iota
	rankHandle
	rankAttributes
	rankAccess
	rankLookup
	rankPurpose
)

func rank(o Op) int {
	switch o {
	case OpSequence:
		return rankSequence
	case OpPutFH, OpPutRootFH, OpGetFH, OpSaveFH, OpRestoreFH:
		return rankHandle
	case OpGetAttr, OpVerify, OpNVerify:
		return rankAttributes
	case OpAccess:
		return rankAccess
	case OpLookup, OpLookupP:
		return rankLookup
	}
	return rankPurpose
}

// Principal is the operation that a compound is made for: not SEQUENCE, nor one that sets the current file
// handle, nor one that tells what has become of the file. The Linux client names its compounds so, too. Of
// several it is the first. ops has one operation at least.
func Principal(ops []Operation) Op {
	best := ops[0].Op()
	high := rank(best)
	for _, o := range ops[1:] {
		if n := o.Op(); rank(n) > high {
			best, high = n, rank(n)
		}
	}
	return best
}

// Names are the names of the operations that this package has, by their numbers; "" stands for those that it has not.
func Names() []string {
	all := make([]string, len(operations))
	for i := range operations {
		all[i] = operations[i].name
	}
	return all
}
