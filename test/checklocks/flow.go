package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"
)

// Analyzer proves what comments say of locks.
var Analyzer = &analysis.Analyzer{
	Name:     "checklocks",
	Doc:      "prove what comments say of locks: mu is held, mu is not held, no lock is held",
	Requires: []*analysis.Analyzer{ctrlflow.Analyzer},
	Run:      run,
}

// locks are what is known of locks at a point of a function.
type locks map[*types.Var]lockState

type lockState uint8

const (
	held     lockState = iota + 1
	released           // by this function, which has not locked it
)

// effect is what calling a function does to locks, and which locks it holds when it
// calls each of its parameters that are functions.
type effect struct {
	locks, unlocks []*types.Var
	calls          map[*types.Var]locks
}

type checker struct {
	pass    *analysis.Pass
	cfgs    *ctrlflow.CFGs
	terms   map[*types.Func]terms
	effects map[*types.Func]effect
	// report: the effects are known.
	report bool
	seen   map[token.Pos]bool
	// ignored are the lines with a comment //checklocks:ignore.
	ignored map[line]bool
}

type line struct {
	file string
	n    int
}

func lineOf(pass *analysis.Pass, pos token.Pos) line {
	p := pass.Fset.Position(pos)
	return line{p.Filename, p.Line}
}

func run(pass *analysis.Pass) (any, error) {
	c := &checker{pass: pass, cfgs: pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs),
		terms: map[*types.Func]terms{}, effects: map[*types.Func]effect{}, seen: map[token.Pos]bool{}, ignored: map[line]bool{}}
	var all []*ast.FuncDecl
	for _, file := range pass.Files {
		if strings.HasSuffix(pass.Fset.File(file.FileStart).Name(), "_test.go") {
			continue // whose helpers are called by one another's hooks
		}
		for _, g := range file.Comments {
			for _, comment := range g.List {
				if strings.HasPrefix(comment.Text, "//checklocks:ignore ") {
					c.ignored[lineOf(pass, comment.Pos())] = true
				}
			}
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				all = append(all, f)
				c.terms[pass.TypesInfo.Defs[f.Name].(*types.Func)] = termsOf(pass, f)
			}
		}
	}
	// Functions that lock or unlock for others rarely call one another.
	const rounds = 3
	for n := range rounds + 1 {
		c.report = n == rounds
		for _, f := range all {
			fn := pass.TypesInfo.Defs[f.Name].(*types.Func)
			entry := locks{}
			for _, l := range append(c.terms[fn].assumed, c.terms[fn].held...) {
				entry[l] = held
			}
			c.effects[fn] = c.function(c.cfgs.FuncDecl(f), entry)
		}
	}
	return nil, nil
}

// function walks a function or literal that is entered with entry.
func (c *checker) function(g *cfg.CFG, entry locks) effect {
	if g == nil || len(g.Blocks) == 0 {
		return effect{}
	}
	in := make([]locks, len(g.Blocks))
	in[0] = maps.Clone(entry)
	w := &walker{checker: c, entry: entry, calls: map[*types.Var]locks{}}
	for changed := true; changed; {
		changed = false
		for _, b := range g.Blocks {
			if in[b.Index] == nil {
				continue
			}
			out := w.block(b, maps.Clone(in[b.Index]))
			for k, next := range b.Succs {
				s := maps.Clone(out)
				if l, branch := w.tried(b); l != nil && k == branch && len(b.Succs) == 2 {
					s[l] = held
				}
				if in[next.Index] == nil {
					in[next.Index] = s
					changed = true
				} else if meet(in[next.Index], s) {
					changed = true
				}
			}
		}
	}
	w.final = c.report
	var atEnd locks
	for _, b := range g.Blocks {
		if in[b.Index] == nil {
			continue
		}
		out := w.block(b, maps.Clone(in[b.Index]))
		if len(b.Succs) > 0 || !b.Live || b.Return() == nil && !fallsOff(b) {
			continue
		}
		for _, l := range w.deferred {
			w.unlock(out, l)
		}
		if atEnd == nil {
			atEnd = out
		} else {
			meet(atEnd, out)
		}
	}
	e := effect{calls: w.calls}
	for l, s := range atEnd {
		switch {
		case s == held && entry[l] != held:
			e.locks = append(e.locks, l)
		case s == released:
			e.unlocks = append(e.unlocks, l)
		}
	}
	return e
}

// fallsOff tells whether control leaves the function at the end of b: it does not
// where b ends in a call that never returns.
func fallsOff(b *cfg.Block) bool {
	if len(b.Nodes) == 0 {
		return true
	}
	if s, ok := b.Nodes[len(b.Nodes)-1].(*ast.ExprStmt); ok {
		if call, ok := s.X.(*ast.CallExpr); ok {
			if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
				return false
			}
		}
	}
	return true
}

// meet keeps in a what b agrees with, and tells whether that was not all.
func meet(a, b locks) (changed bool) {
	for l, s := range a {
		if b[l] != s {
			delete(a, l)
			changed = true
		}
	}
	return changed
}

// walker walks one function.
type walker struct {
	*checker
	entry    locks
	deferred []*types.Var // unlocked when it returns
	calls    map[*types.Var]locks
	final    bool
}

func (w *walker) block(b *cfg.Block, s locks) locks {
	for _, n := range b.Nodes {
		w.node(n, s)
	}
	return s
}

// node walks n in the order of evaluation, nearly.
func (w *walker) node(n ast.Node, s locks) {
	switch n := n.(type) {
	case nil:
		return
	case *ast.FuncLit:
		w.literal(n, s)
		return
	case *ast.GoStmt:
		w.arguments(n.Call, s, locks{})
		w.call(n.Call, locks{})
		return
	case *ast.DeferStmt:
		w.arguments(n.Call, s, s)
		if l, op := w.operation(n.Call); l != nil && (op == "Unlock" || op == "RUnlock") {
			if w.final {
				return
			}
			for _, d := range w.deferred {
				if d == l {
					return
				}
			}
			w.deferred = append(w.deferred, l)
			return
		}
		w.call(n.Call, maps.Clone(s))
		return
	case *ast.CallExpr:
		inner := s
		if w.runsLater(n) {
			inner = locks{}
		}
		w.arguments(n, s, inner)
		w.call(n, s)
		return
	}
	for _, child := range children(n) {
		w.node(child, s)
	}
}

// arguments walks what a call evaluates before it is made; literals in it are
// entered with inner.
func (w *walker) arguments(call *ast.CallExpr, s, inner locks) {
	for k, e := range append([]ast.Expr{call.Fun}, call.Args...) {
		if lit, ok := ast.Unparen(e).(*ast.FuncLit); ok {
			w.literal(lit, w.heldFor(call, k-1, inner))
			continue
		}
		w.node(e, s)
	}
}

// heldFor is what is held when a call's argument k, a function, is called: what is
// held at the call, and what the callee locks for it.
func (w *walker) heldFor(call *ast.CallExpr, k int, s locks) locks {
	f := callee(w.pass, call)
	if f == nil || k < 0 {
		return s
	}
	f = f.Origin()
	params := f.Signature().Params()
	if k >= params.Len() {
		return s
	}
	own := w.effects[f].calls[params.At(k)]
	if len(own) == 0 {
		return s
	}
	s = maps.Clone(s)
	maps.Copy(s, own)
	return s
}

func (w *walker) literal(lit *ast.FuncLit, s locks) {
	if w.final {
		w.checker.function(w.cfgs.FuncLit(lit), maps.Clone(s))
	}
}

// runsLater tells whether what a call is given runs on another goroutine.
func (w *walker) runsLater(call *ast.CallExpr) bool {
	f := callee(w.pass, call)
	if f == nil {
		return false
	}
	switch f.Name() {
	case "Go", "AfterFunc", "spawn":
		return true
	}
	return false
}

// call checks and carries out a call.
func (w *walker) call(call *ast.CallExpr, s locks) {
	if l, op := w.operation(call); l != nil {
		switch op {
		case "Lock", "RLock":
			s[l] = held
		case "Unlock", "RUnlock":
			w.unlock(s, l)
		}
		return
	}
	f := callee(w.pass, call)
	if f == nil {
		if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok {
			if v, ok := w.pass.TypesInfo.Uses[id].(*types.Var); ok {
				if before, ok := w.calls[v]; ok {
					meet(before, s)
				} else {
					w.calls[v] = maps.Clone(s)
				}
			}
		}
		return
	}
	f = f.Origin()
	t := w.terms[f]
	for _, l := range t.held {
		if s[l] != held {
			w.reportf(call.Pos(), "%s is called without %s, which its comment says is held", f.Name(), nameOf(w.pass, l))
		}
	}
	for _, l := range t.free {
		if s[l] == held {
			w.reportf(call.Pos(), "%s is called with %s held, which its comment says is not", f.Name(), nameOf(w.pass, l))
		}
	}
	if t.none {
		for l, is := range s {
			if is == held {
				w.reportf(call.Pos(), "%s is called with %s held, and its comment says that no lock is", f.Name(), nameOf(w.pass, l))
			}
		}
	}
	e := w.effects[f]
	for _, l := range e.unlocks {
		w.unlock(s, l)
	}
	for _, l := range e.locks {
		s[l] = held
	}
}

// unlock notes that l is unlocked. One that the function has locked itself is as
// if it had not been touched.
func (w *walker) unlock(s locks, l *types.Var) {
	if s[l] == held && w.entry[l] != held {
		delete(s, l)
		return
	}
	s[l] = released
}

func (w *walker) reportf(pos token.Pos, format string, args ...any) {
	if w.final && !w.seen[pos] && !w.ignored[lineOf(w.pass, pos)] {
		w.seen[pos] = true
		w.pass.Reportf(pos, format, args...)
	}
}

// operation is the lock that a call locks or unlocks, and which of these.
func (w *walker) operation(call *ast.CallExpr) (*types.Var, string) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil, ""
	}
	switch sel.Sel.Name {
	case "Lock", "RLock", "Unlock", "RUnlock", "TryLock", "TryRLock":
	default:
		return nil, ""
	}
	method := w.pass.TypesInfo.Selections[sel]
	if method == nil || method.Kind() != types.MethodVal {
		return nil, ""
	}
	// A method of an embedded lock: the lock is the last field on the way.
	if path := method.Index(); len(path) > 1 {
		t := method.Recv()
		var field *types.Var
		for _, k := range path[:len(path)-1] {
			if p, ok := t.Underlying().(*types.Pointer); ok {
				t = p.Elem()
			}
			st, ok := t.Underlying().(*types.Struct)
			if !ok {
				return nil, ""
			}
			field = st.Field(k)
			t = field.Type()
		}
		return field.Origin(), sel.Sel.Name
	}
	return lockOf(w.pass, sel.X), sel.Sel.Name
}

// lockOf is the variable or field that an expression denotes.
func lockOf(pass *analysis.Pass, e ast.Expr) *types.Var {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v, _ := pass.TypesInfo.ObjectOf(e).(*types.Var)
		return v
	case *ast.SelectorExpr:
		v, _ := pass.TypesInfo.ObjectOf(e.Sel).(*types.Var)
		if v != nil {
			return v.Origin()
		}
	case *ast.UnaryExpr:
		return lockOf(pass, e.X)
	case *ast.IndexExpr:
		return lockOf(pass, e.X)
	}
	return nil
}

// tried is the lock that b ends with trying to take, and the branch that has it.
func (w *walker) tried(b *cfg.Block) (l *types.Var, branch int) {
	if len(b.Nodes) == 0 {
		return nil, 0
	}
	e, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	if !ok {
		return nil, 0
	}
	e = ast.Unparen(e)
	if not, ok := e.(*ast.UnaryExpr); ok && not.Op == token.NOT {
		e, branch = ast.Unparen(not.X), 1
	}
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return nil, 0
	}
	l, op := w.operation(call)
	if op != "TryLock" && op != "TryRLock" {
		return nil, 0
	}
	return l, branch
}

// callee is the function or method that a call names.
func callee(pass *analysis.Pass, call *ast.CallExpr) *types.Func {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		fn, _ := pass.TypesInfo.Uses[f].(*types.Func)
		return fn
	case *ast.SelectorExpr:
		fn, _ := pass.TypesInfo.Uses[f.Sel].(*types.Func)
		return fn
	case *ast.IndexExpr: // with a type argument
		return callee(pass, &ast.CallExpr{Fun: f.X})
	}
	return nil
}

// children are the nodes right below n.
func children(n ast.Node) (all []ast.Node) {
	first := true
	ast.Inspect(n, func(c ast.Node) bool {
		if first {
			first = false
			return true
		}
		if c != nil {
			all = append(all, c)
		}
		return false
	})
	return all
}
