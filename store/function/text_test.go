package function_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/function"
)

// What cannot be a file of Python is refused when it is sent, and not by the
// first job that runs it.
func TestAProgramIsText(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		ok   bool
	}{
		"plain":                   {"x = 1\n", true},
		"UTF-8":                   {"x = 'é'\n", true},
		"random bytes":            {"\xff\xfe\x9c\x01x\n", false},
		"a NUL":                   {"x = 1\x00\n", false},
		"another encoding, named": {"#!/usr/bin/python\n# -*- coding: latin-1 -*-\nx = '\xe9'\n", true},
		"another one, too late":   {"\n\n# coding: latin-1\nx = '\xe9'\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "net.py")
			require.NoError(t, os.WriteFile(path, []byte(c.code), 0o600))
			_, err := function.New(store.NewMem()).Import(t.Context(), path)
			if c.ok {
				require.NoError(t, err)
				return
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			require.ErrorContains(t, err, "net.py is no program text")
		})
	}
}
