package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// terms are what a function's comment says of locks.
type terms struct {
	held, free []*types.Var
	assumed    []*types.Var // held sometimes
	none       bool         // no lock is held
}

var (
	saysHeld = regexp.MustCompile(`([\w.]*\w) (?:is|are) (not )?held(,? (?:or|if|unless|when|while|by|until|to|for)\b)?`)
	saysWith = regexp.MustCompile(`\bwith ([\w.]*\w)() held(,? (?:or|if|unless|when|while|by|until|to|for)\b)?`)
	saysNone = regexp.MustCompile(`(?i)\bno locks? (is |are )?held`)
)

// termsOf reads a function's comment. What holds only sometimes ("is held if") is
// assumed in the function, and not demanded of its callers.
func termsOf(pass *analysis.Pass, f *ast.FuncDecl) (t terms) {
	if f.Doc == nil {
		return t
	}
	text := strings.Join(strings.Fields(f.Doc.Text()), " ")
	t.none = saysNone.MatchString(text)
	for _, m := range append(saysHeld.FindAllStringSubmatch(text, -1), saysWith.FindAllStringSubmatch(text, -1)...) {
		name := m[1]
		lock, err := resolve(pass, f, name)
		switch {
		case err != nil:
			if m[3] == "" && isLockName(name[strings.LastIndexByte(name, '.')+1:]) {
				pass.Reportf(f.Name.Pos(), "%s is held: %v", name, err)
			}
		case m[2] != "" && m[3] != "":
		case m[2] != "":
			t.free = append(t.free, lock)
		case m[3] != "":
			t.assumed = append(t.assumed, lock)
		default:
			t.held = append(t.held, lock)
		}
	}
	return t
}

// isLockName tells whether a word is by its look the name of a lock.
func isLockName(s string) bool { return s == "mu" || s == "mutex" || strings.HasSuffix(s, "Mu") }

// resolve is the lock that a function's comment calls name: a path of fields that
// begins at the receiver, a parameter, a type or a variable of the package, or at a
// field of the receiver or of a parameter.
func resolve(pass *analysis.Pass, f *ast.FuncDecl, name string) (*types.Var, error) {
	path := strings.Split(name, ".")
	params := append(fieldVars(pass, f.Recv), fieldVars(pass, f.Type.Params)...)
	var from []types.Type
	if len(path) > 1 {
		for _, p := range params {
			if p.Name() == path[0] {
				from = append(from, p.Type())
			}
		}
		switch o := pass.Pkg.Scope().Lookup(path[0]).(type) {
		case *types.TypeName, *types.Var:
			from = append(from, o.Type())
		}
	} else if v, ok := pass.Pkg.Scope().Lookup(name).(*types.Var); ok && isLock(v.Type()) {
		return v, nil
	}
	for _, t := range from {
		if v := walk(pass, t, path[1:]); v != nil {
			return v, nil
		}
	}
	for _, p := range params {
		if v := walk(pass, p.Type(), path); v != nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("no such lock: name it as Type.%s", path[len(path)-1])
}

// walk is the lock at the end of a path of fields of t, or nil.
func walk(pass *analysis.Pass, t types.Type, path []string) *types.Var {
	var v *types.Var
	for _, name := range path {
		if v = fieldOf(t, pass.Pkg, name); v == nil {
			return nil
		}
		t = v.Type()
	}
	if v == nil || !isLock(v.Type()) {
		return nil
	}
	return v
}

func fieldVars(pass *analysis.Pass, l *ast.FieldList) (vars []*types.Var) {
	if l == nil {
		return nil
	}
	for _, f := range l.List {
		for _, name := range f.Names {
			if v, ok := pass.TypesInfo.Defs[name].(*types.Var); ok {
				vars = append(vars, v)
			}
		}
	}
	return vars
}

// fieldOf is a field of a struct, or of one that is embedded in it.
func fieldOf(t types.Type, pkg *types.Package, name string) *types.Var {
	obj, _, _ := types.LookupFieldOrMethod(t, true, pkg, name)
	if v, ok := obj.(*types.Var); ok {
		return v.Origin()
	}
	return nil
}

// isLock tells whether a type has Lock and Unlock.
func isLock(t types.Type) bool {
	for _, name := range []string{"Lock", "Unlock"} {
		obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, nil, name)
		if _, ok := obj.(*types.Func); !ok {
			obj, _, _ = types.LookupFieldOrMethod(t, true, nil, name)
			if _, ok := obj.(*types.Func); !ok {
				return false
			}
		}
	}
	return true
}

// nameOf is a lock as a message calls it.
func nameOf(pass *analysis.Pass, lock *types.Var) string {
	if !lock.IsField() {
		return lock.Name()
	}
	scope := pass.Pkg.Scope()
	for _, n := range scope.Names() {
		tn, ok := scope.Lookup(n).(*types.TypeName)
		if !ok {
			continue
		}
		s, ok := tn.Type().Underlying().(*types.Struct)
		for k := 0; ok && k < s.NumFields(); k++ {
			if s.Field(k).Origin() == lock {
				return n + "." + lock.Name()
			}
		}
	}
	return lock.Name()
}
